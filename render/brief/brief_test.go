package brief

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestText: whatever the blocks are, the text fits, what is more important is not left
// out for what is less so, and the last line says so if something is missing.
func TestText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var blocks []Block
		var screen Screen
		for n := range rnd.IntN(8) {
			b := Block{Rank: rnd.IntN(12), Apart: rnd.IntN(2) == 0, Whole: rnd.IntN(3) == 0}
			if rnd.IntN(2) == 0 {
				b.Title = fmt.Sprintf("title %d", n)
			}
			for k := range rnd.IntN(12) {
				b.Lines = append(b.Lines, fmt.Sprintf("block %d line %d %s", n, k, strings.Repeat("€", rnd.IntN(100))))
			}
			blocks = append(blocks, b)
			screen.Add(b)
		}
		text := screen.Text(Lines, false, "see")
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > Lines {
			t.Fatalf("%d lines:\n%s", len(lines), text)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > Width {
				t.Fatalf("too wide: %q", line)
			}
		}
		missing := false
		for n, b := range blocks {
			has := strings.Count(text, fmt.Sprintf("block %d line ", n))
			missing = missing || has < len(b.Lines)
			if b.Whole && has > 0 && has < len(b.Lines) {
				t.Fatalf("block %d has %d of %d lines:\n%s", n, has, len(b.Lines), text)
			}
			if b.Title != "" && strings.Contains(text, b.Title+"\n") != (has > 0) {
				t.Fatalf("block %d has %d lines and its title, or not:\n%s", n, has, text)
			}
			for k, c := range blocks { // a line of less importance, and room that would have been enough
				if has == 0 && len(b.Lines) == 1 && c.Rank > b.Rank && len(c.Lines) > 0 && b.height(1) == 1 && strings.Contains(text, fmt.Sprintf("block %d line ", k)) {
					t.Fatalf("block %d of rank %d is missing, block %d of rank %d is there:\n%s", n, b.Rank, k, c.Rank, text)
				}
			}
		}
		if missing != strings.HasSuffix(text, "see\n") {
			t.Fatalf("something is missing: %v:\n%s", missing, text)
		}
	}
}

// TestWrap: all words are there, in lines that are not too wide.
func TestWrap(t *testing.T) {
	line := strings.Repeat("some words of a sentence ", 20)
	lines := Wrap(strings.TrimSpace(line), "  ")
	if got := strings.Fields(strings.Join(lines, " ")); strings.Join(got, " ") != strings.TrimSpace(line) {
		t.Errorf("%q", got)
	}
	for i, l := range lines {
		if utf8.RuneCountInString(l) > Width || i > 0 && !strings.HasPrefix(l, "  ") {
			t.Errorf("%q", l)
		}
	}
}

// lowScreen has so many rows.
type lowScreen struct {
	io.Writer
	rows int
}

func (s lowScreen) Rows() int { return s.rows }

// TestRoom: on a low screen a report leaves a row for the prompt; elsewhere it has its usual
// lines.
func TestRoom(t *testing.T) {
	for rows, want := range map[int]int{0: least, 5: least, 24: 23, 25: 24, 26: Lines, 100: Lines} {
		if got := Room(lowScreen{io.Discard, rows}); got != want {
			t.Errorf("%d rows: %d lines, want %d", rows, got, want)
		}
	}
	if got := Room(io.Discard); got != Lines {
		t.Errorf("no screen: %d", got)
	}
}

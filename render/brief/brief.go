// Package brief fits a report for people onto a screen: its most important lines, in
// lines that are not too wide.
package brief

import (
	"io"
	"strings"
	"unicode/utf8"

	"ustack/render/phrase"
)

// The size of a report, in characters and lines.
const (
	Width = 80
	Lines = 25
)

// least is how many lines a report has on the smallest screen.
const least = 12

// Room returns how many lines a report has that is written to w: Lines, or on a lower screen
// what leaves a row for the prompt after it. w is a screen if it has a method Rows.
func Room(w io.Writer) int {
	if screen, ok := w.(interface{ Rows() int }); ok {
		return min(Lines, max(screen.Rows()-1, least))
	}
	return Lines
}

// Block is some lines of a report that belong together.
type Block struct {
	Lines []string
	// Rank is how important they are, 0 is most. Blocks of one rank are cut from the last one on.
	Rank int
	// Title is above the lines, "" for none. It stands with at least one of them.
	Title string
	// Apart is set if an empty line is before the block.
	Apart bool
	// Whole is set if the lines say nothing without each other.
	Whole bool

	kept int // lines
}

// height returns how many lines the first n of a block take.
func (b *Block) height(n int) int {
	if n == 0 {
		return 0
	}
	if b.Title != "" {
		n++
	}
	if b.Apart {
		n++
	}
	return n
}

// fitting returns how many of a block's lines fit into room.
func (b *Block) fitting(room int) int {
	n := min(len(b.Lines), max(room-(b.height(1)-1), 0))
	if b.Whole && n < len(b.Lines) {
		return 0
	}
	return n
}

// Screen is a report of blocks.
type Screen struct {
	blocks []Block
}

// Add adds a block at the end. A block without lines does not stand.
func (s *Screen) Add(b Block) { s.blocks = append(s.blocks, b) }

// Note adds a sentence, in as many lines as it needs.
func (s *Screen) Note(rank int, apart bool, sentence string) {
	s.Add(Block{Lines: Wrap(sentence, "  "), Rank: rank, Apart: apart, Whole: true})
}

// Text returns what fits of the blocks, in their order, in no more than most lines. If
// something is left out, or more is set, the last line is the one that says how to see it.
func (s *Screen) Text(most int, more bool, see string) string {
	left := s.choose(most)
	if left || more {
		s.choose(most - 1)
		left = true
	}
	var text strings.Builder
	write := func(line string) {
		text.WriteString(phrase.Clip(line, Width))
		text.WriteByte('\n')
	}
	for i := range s.blocks {
		b := &s.blocks[i]
		if b.kept == 0 {
			continue
		}
		if b.Apart && text.Len() > 0 {
			text.WriteByte('\n')
		}
		if b.Title != "" {
			write(b.Title)
		}
		for _, line := range b.Lines[:b.kept] {
			write(line)
		}
	}
	if left {
		write(see)
	}
	return text.String()
}

// choose decides how many lines of each block stand, and reports whether some do not fit
// into room.
func (s *Screen) choose(room int) (left bool) {
	last := 0
	for i := range s.blocks {
		last = max(last, s.blocks[i].Rank)
	}
	for rank := range last + 1 {
		for i := range s.blocks {
			b := &s.blocks[i]
			if b.Rank != rank {
				continue
			}
			b.kept = b.fitting(room)
			room -= b.height(b.kept)
			left = left || b.kept < len(b.Lines)
		}
	}
	return left
}

// Split returns the lines of a text, without empty lines around it.
func Split(text string) []string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// Wrap breaks a line at its spaces into lines that are not too wide, those after the first
// one with an indent.
func Wrap(line, indent string) (lines []string) {
	words := strings.Split(line, " ")
	at := words[0]
	for _, word := range words[1:] {
		if utf8.RuneCountInString(at)+1+utf8.RuneCountInString(word) > Width {
			lines = append(lines, at)
			at = indent + word
			continue
		}
		at += " " + word
	}
	return append(lines, at)
}

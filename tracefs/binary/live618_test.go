package binary

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLive618: what Linux 6.18 printed of 211 kinds of events, of kernel and
// user stacks, markers, with several options and clocks. Where a print fmt
// cannot be evaluated only the columns before it can agree.
func TestLive618(t *testing.T) {
	capturetest.SkipShort(t)
	for _, name := range []string{"events", "stacks"} {
		t.Run(name, func(t *testing.T) {
			capture := filepath.Join("testdata", "live618", name)
			dir, err := OpenDir(capturetest.Unpack(t, filepath.Join(capture, "raw.tar.zst")))
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			s := dir.Source(Options{Events: true}, nil)
			all := readAll(t, s)
			if all.err != io.EOF {
				t.Fatal(all.err)
			}
			byFields := make(map[string]bool)
			for _, note := range s.Notes() {
				byFields[strings.Fields(note)[1]] = true
			}
			if len(byFields) > 20 {
				t.Errorf("%d events printed by fields", len(byFields))
			}
			plain, _, _, _ := scanned(t, capturetest.Read(t, filepath.Join(capture, "trace.txt.zst")))
			got, want := lines(all.text), lines(plain)
			if len(got) != len(want) || len(want) < 10_000 {
				t.Fatalf("%d lines, the kernel printed %d", len(got), len(want))
			}
			for i := range want {
				if !bytes.Equal(got[i], want[i]) && !otherwise(got[i], want[i], byFields) {
					t.Fatalf("line %d is\n%.300s\nthe kernel printed\n%.300s", i, got[i], want[i])
				}
			}
		})
	}
}

// lines leaves out comments and loss, which the file "trace" has otherwise.
func lines(text []byte) (out [][]byte) {
	for line := range bytes.Lines(text) {
		if line[0] != '#' && !bytes.HasPrefix(line, []byte("CPU:")) {
			out = append(out, line)
		}
	}
	return out
}

// otherwise reports whether two lines are of the same event, which is printed
// by fields.
func otherwise(got, want []byte, byFields map[string]bool) bool {
	for name := range byFields {
		mark := []byte(": " + name + ":")
		a, _, ok := bytes.Cut(got, mark)
		b, _, also := bytes.Cut(want, mark)
		if ok && also && bytes.Equal(a, b) {
			return true
		}
	}
	return false
}

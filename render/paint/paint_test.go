package paint

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"testing"
)

var colors = regexp.MustCompile("\033\\[[0-9]*m")

// TestReport: the shapes that reports have get their colors.
func TestReport(t *testing.T) {
	const in = `1.37 s waited for 16 locks, by 38 threads
  waiting at 66 condition variables
Most: mutex 0x1 in fp-w0, threads 91
  ms in 23 waits (28 % of all)
  waiting     fp-w0-91 34 %
              at contend+0x12e1
  held for    17.5 ms

Stacks: of 964 waits, 93.5 %

Note: goroutines make
  no call

  #1  mutex
      holder: ran 32 %
      waits at    a  61 %
`
	const want = "\033[1m1.37 s waited for 16 locks, by 38 threads\033[0m\n" +
		"  \033[1mwaiting at 66 condition variables\033[0m\n" +
		"\033[1mMost: mutex 0x1 in fp-w0, threads 91\033[0m\n" +
		"  \033[1mms in 23 waits (28 % of all)\033[0m\n" +
		"  \033[36mwaiting\033[0m     fp-w0-91 34 %\n" +
		"              at contend+0x12e1\n" +
		"  \033[36mheld for\033[0m    17.5 ms\n\n" +
		"\033[36mStacks:\033[0m of 964 waits, 93.5 %\n\n" +
		"\033[33mNote:\033[0m goroutines make\n  no call\n\n" +
		"  \033[1m#1  mutex\033[0m\n" +
		"      \033[36mholder:\033[0m ran 32 %\n" +
		"      \033[36mwaits at\033[0m    a  61 %\n"
	if got := string(Report([]byte(in))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestReportAddsColors: without its colors any text is what it was.
func TestReportAddsColors(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := []string{"Most", ": ", "Note:", "#1 ", "  ", " ", "\n", "\n\n", "waiting", "held for", "Ä€", "\t", "0x1", "Stacks:", "a"}
	for range 20000 {
		var in []byte
		for range rnd.IntN(20) {
			in = append(in, words[rnd.IntN(len(words))]...)
		}
		out := Report(in)
		if got := colors.ReplaceAll(out, nil); !bytes.Equal(got, in) {
			t.Fatalf("%q became %q", in, out)
		}
		for line := range bytes.Lines(out) {
			if bytes.Count(line, []byte("\033[")) != 2*bytes.Count(line, []byte(reset)) {
				t.Fatalf("%q: a color goes on after its line: %q", in, line)
			}
		}
	}
}

package tracefs_test

import (
	"math/rand/v2"
	"testing"

	"ustack/tracefs"
)

// TestLineCounter compares with the count of all lines, of records with and without text,
// whatever records are asked for.
func TestLineCounter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var c tracefs.LineCounter
	for range 200 {
		b := &tracefs.Batch{Line: rnd.Int64N(100)}
		for range rnd.IntN(20) {
			r := tracefs.Record{Off: uint32(len(b.Text))}
			if rnd.IntN(3) == 0 {
				r.Flags = tracefs.NoText
				r.Lo = uint32(len(b.Frames))
				b.Frames = append(b.Frames, make([]tracefs.Frame, rnd.IntN(3))...)
				r.Hi = uint32(len(b.Frames))
			} else {
				b.Text = append(b.Text, "a\nb\nc\n"[:2*(1+rnd.IntN(3))]...)
			}
			r.End = uint32(len(b.Text))
			b.Records = append(b.Records, r)
		}
		c.Begin(b)
		for i := range b.Records {
			if rnd.IntN(4) == 0 {
				i = rnd.IntN(len(b.Records))
			}
			if got, want := c.Of(i), b.LineOf(&b.Records[i])+1; got != want {
				t.Fatalf("record %d of %+v is in line %d, want %d", i, b.Records, got, want)
			}
		}
	}
}

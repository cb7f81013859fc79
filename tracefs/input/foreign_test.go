package input

import (
	"io"
	"strings"
	"testing"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/text"
)

// readPipe is a trace_pipe that has a text and ends.
type readPipe struct{ io.Reader }

func (readPipe) Wait(time.Duration) (bool, error) { return true, nil }
func (readPipe) Close() error                     { return nil }

// TestLiveIsForeign: the kernel's own text is no file of ours, whatever it begins
// with: what is escaped in it is not undone.
func TestLiveIsForeign(t *testing.T) {
	s := newSource(Live("trace_pipe", readPipe{strings.NewReader(text.Head + "            a-7       [000] .....     1.000001: ev: x\n")}), true)
	for {
		var b tracefs.Batch
		err := s.Next(&b)
		if b.Escaped {
			t.Fatalf("%q is taken for text of ours", b.Text)
		}
		if err != nil {
			return
		}
	}
}

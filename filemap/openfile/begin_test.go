package openfile

import (
	"errors"
	"os"
	"testing"
	"time"
)

// TestBegin: a file was not changed since if its time is from before, unless the clock was set
// meanwhile: to an earlier time, for one. It may have been set before: then files can have been
// changed in the future.
func TestBegin(t *testing.T) {
	now := time.Now()
	set := func() *Begin {
		r, w, err := os.Pipe()
		check(t, err)
		_, err = w.Write([]byte{0})
		check(t, errors.Join(err, w.Close()))
		return &Begin{at: now, clock: r}
	}
	for _, c := range []struct {
		what    string
		begin   *Begin
		changed time.Time
		shows   bool
	}{
		{"none", nil, now.Add(-time.Hour), false},
		{"before", BeginAt(now), now.Add(-time.Second), true},
		{"right before", BeginAt(now), now.Add(-time.Millisecond), false},
		{"after", BeginAt(now), now.Add(time.Second), false},
		{"in the future", BeginAt(now), now.Add(time.Hour), false},
		{"clock set", set(), now.Add(-time.Hour), false},
	} {
		for range 2 { // the same, however often it is asked
			if shows := c.begin.Shows(c.changed); shows != c.shows {
				t.Errorf("%s: %v", c.what, shows)
			}
		}
	}
}

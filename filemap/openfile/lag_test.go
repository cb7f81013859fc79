package openfile

import (
	"testing"
	"time"
)

// TestChangedBefore: a time of whole seconds may be that of a change up to two seconds later.
func TestChangedBefore(t *testing.T) {
	second := time.Unix(1e9, 0)
	for _, c := range []struct {
		changed time.Time
		after   time.Duration
		before  bool
	}{
		{second, 0, false},
		{second, 900 * time.Millisecond, false},
		{second, 1900 * time.Millisecond, false},
		{second, 2100 * time.Millisecond, true},
		{second.Add(1), 0, false},
		{second.Add(1), 10 * time.Millisecond, false},
		{second.Add(1), 30 * time.Millisecond, true},
	} {
		if before := ChangedBefore(c.changed, c.changed.Add(c.after)); before != c.before {
			t.Errorf("%+v: %v", c, before)
		}
	}
}

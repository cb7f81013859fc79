package live

import (
	"os"
	"strings"
	"testing"

	"ustack/filemap/resolve"
)

// wantingSink counts what it is for.
type wantingSink struct {
	recordingSink
	wanted int64
}

func (w *wantingSink) Wanted() int64 { return w.wanted }

// TestNothing: why a trace has nothing of what it is for is said, also where records were
// lost: the answer is not the loss.
func TestNothing(t *testing.T) {
	for name, c := range map[string]struct {
		wanted int64
		lost   uint64
		want   []string // of the error, nil for none
	}{
		"something":           {1, 0, nil},
		"something, and loss": {1, 5, nil},
		"nothing":             {0, 0, []string{"no event of those that were asked for; ", "(PID "}},
		"nothing, and loss":   {0, 5, []string{"no event of those that were asked for among the records that were not lost; ", "(PID "}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{opt: &Options{PIDs: []int{os.Getpid()}, Reporter: &Reporter{Quiet: true}}, sink: &wantingSink{wanted: c.wanted}}
			s.nothing.s = s
			s.nothing.begin()
			err := s.nothing.end(&resolve.Totals{Events: 100, Lost: map[int32]resolve.Loss{0: {Gaps: 1, Records: c.lost}}})
			if (err == nil) != (c.want == nil) {
				t.Fatalf("error: %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
		})
	}
}

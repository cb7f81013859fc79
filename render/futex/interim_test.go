package futex_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/render/futex/report"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/input"
)

// steps reads a text in pieces and calls step after each.
func steps(t *testing.T, text string, a *futex.Analysis, step func(n int) (more bool)) {
	t.Helper()
	trace, err := input.OpenAll([]string{"-"}, strings.NewReader(text), input.Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	driveSteps(t, trace, a, resolve.Options{Stitch: true, Sources: 1, Hold: resolve.Limits{Lines: 2000, Time: tracefs.Time(2e9)}}, step)
}

func asJSON(t *testing.T, r *futex.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestInterim: a report while the trace goes on is that of what has been until
// then, and changes nothing of what comes of the rest.
func TestInterim(t *testing.T) {
	capturetest.SkipShort(t)
	for c, name := range []string{"hash/pipe_default", "stock/pipe_default", "stock/lost", "stock/tgid", "inode/lost"} {
		for _, damaged := range []bool{false, true} {
			if capturetest.Brief() && damaged != (c%2 == 0) {
				continue
			}
			text := traceText(t, name)
			if damaged {
				text = damage(textRecords(t, text), rand.New(rand.NewPCG(uint64(c), 7)))
			}
			var want, got string
			whole := futex.New(futex.Options{})
			steps(t, text, whole, func(int) bool { return true })
			want = asJSON(t, whole.Report(futex.View{}))

			watched, reports := futex.New(futex.Options{}), 0
			steps(t, text, watched, func(n int) bool {
				if !watched.Seen() {
					return true
				}
				now := asJSON(t, watched.Interim(futex.View{}))
				if again := asJSON(t, watched.Interim(futex.View{})); again != now {
					t.Errorf("%s: the second of two reports differs: %s", name, difference(now, again))
				}
				if reports++; reports%3 == 0 {
					until := futex.New(futex.Options{})
					steps(t, text, until, func(k int) bool { return k < n })
					end := until.Report(futex.View{})
					if msg := apart(end, watched.Interim(futex.View{})); msg != "" {
						t.Errorf("%s (damaged %v), step %d: not what the trace says up to there: %s", name, damaged, n, msg)
					}
				}
				return true
			})
			if got = asJSON(t, watched.Report(futex.View{})); got != want {
				t.Errorf("%s (damaged %v): after %d reports the end is another: %s", name, damaged, reports, difference(want, got))
			}
			if reports < 3 {
				t.Errorf("%s: %d reports", name, reports)
			}
		}
	}
}

// apart is in what an interim report differs from that of the trace up to there.
// Which locks are one may be known at the end only.
func apart(end, now *futex.Report) string {
	for _, c := range []struct {
		what     string
		end, now any
	}{
		{"times", []tracefs.Time{end.Start, end.End}, []tracefs.Time{now.Start, now.End}}, {"calls", end.Calls, now.Calls},
		{"waits", end.All, now.All}, {"loss", end.Loss, now.Loss}, {"before", end.Before, now.Before}, {"waitv", end.Waitv, now.Waitv},
		{"no return", end.NoReturn, now.NoReturn}, {"blocked", blockedOf(end), blockedOf(now)},
	} {
		if !reflect.DeepEqual(c.end, c.now) {
			return fmt.Sprintf("%s: %+v, not %+v", c.what, c.now, c.end)
		}
	}
	return ""
}

// blockedOf are the waits that had not ended.
func blockedOf(r *futex.Report) (list []string) {
	for _, b := range r.Blocked {
		list = append(list, fmt.Sprint(b.TID, b.Since, b.Time, b.Doubt))
	}
	return list
}

// difference is where two texts part.
func difference(want, got string) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	from := max(0, i-60)
	return "want …" + want[from:min(len(want), i+60)] + "…, got …" + got[from:min(len(got), i+60)] + "…"
}

package render

import (
	"encoding/json"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
)

// someTotals have something of everything.
func someTotals() *resolve.Totals {
	t := &resolve.Totals{
		Events: 100, Stacks: 20, Cut: 1, Orphans: 2, Frames: 50, Files: 7, MappingEvents: 9,
		BadMappingEvents: 1, Rebound: 2, Requests: 30, PendingTooLong: 3, Gaps: 3,
		Lost: map[int32]resolve.Loss{3: {Gaps: 2, Records: 12}, 0: {Gaps: 1, Records: 5, Unknown: true}, -1: {Gaps: 1, Records: 1000}},
	}
	t.Trusts[filemap.Announced], t.Trusts[filemap.Verified] = 30, 10
	t.Reasons[filemap.Unannounced], t.Reasons[filemap.VDSO] = 9, 1
	t.Missing[resolve.Blocked], t.Missing[resolve.Refused] = 4, 5
	return t
}

func TestTotals(t *testing.T) {
	for _, c := range []struct {
		name   string
		totals *resolve.Totals
		want   string
	}{
		{"everything", someTotals(), `ustack: 100 events, 20 stacks, 50 frames: 40 resolved (30 announced, 10 verified), 10 unresolved (9 unannounced, 1 vdso)
ustack: 7 distinct files, 9 file mapping events (2 with an identifier of another file) (1 unusable)
ustack: 35 stacks requested, 9 never seen (4 blocked, 5 refused)
ustack: 3 events were printed before their stacks came
ustack: 2 stacks without their request, 1 cut short by the kernel or the end of the input
ustack: lost at least 1017 records (overwritten before the trace was read: 1000, CPU 0: 5 in 1 gaps, CPU 3: 12 in 2 gaps)
ustack: 3 places where records may be missing (a buffer that starts late, a line too big)
`},
		{"nothing", &resolve.Totals{}, `ustack: 0 events, 0 stacks, 0 frames: 0 resolved, 0 unresolved
ustack: 0 distinct files, 0 file mapping events
`},
		{"all refused", &resolve.Totals{Missing: [resolve.MissingCount]int64{resolve.Refused: 3}}, `ustack: 0 events, 0 stacks, 0 frames: 0 resolved, 0 unresolved
ustack: 0 distinct files, 0 file mapping events
ustack: 3 stacks requested, 3 never seen (3 refused)
`},
		{"exact loss", &resolve.Totals{Lost: map[int32]resolve.Loss{1: {Gaps: 1, Records: 3}}}, `ustack: 0 events, 0 stacks, 0 frames: 0 resolved, 0 unresolved
ustack: 0 distinct files, 0 file mapping events
ustack: lost 3 records (CPU 1: 3 in 1 gaps)
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			WriteTotals(&out, c.totals)
			if out.String() != c.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), c.want)
			}
		})
	}
}

// TestTotalsAsJSON: the same numbers under the documented keys.
func TestTotalsAsJSON(t *testing.T) {
	var out strings.Builder
	if err := NewJSON(&out, nil, 0).Close(someTotals()); err != nil {
		t.Fatal(err)
	}
	_, last, _ := strings.Cut(out.String(), "\n")
	const want = `{"type":"totals","events":100,"stacks":20,"stacks_cut":1,"frames":50,"resolved":{"announced":30,"verified":10},` +
		`"unresolved":{"unannounced":9,"vdso":1},"files":7,"announcements":9,"announcements_unusable":1,"announcements_rebound":2,` +
		`"stacks_asked":35,"stacks_missing":{"blocked":4,"refused":5},"events_held_too_long":3,"stacks_without_request":2,` +
		`"lost":[{"gaps":1,"records":1000},{"cpu":0,"gaps":1,"records":5,"more":true},{"cpu":3,"gaps":2,"records":12}],"gaps":3}` + "\n"
	if last != want || !json.Valid([]byte(last)) {
		t.Errorf("got  %s\nwant %s", last, want)
	}
}

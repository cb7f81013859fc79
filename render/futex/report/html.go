//go:build !device

package report

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"

	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/render/page"
	"ustack/render/plainjson"
	"ustack/render/profile"
)

// The page, but for the flame graph.
var (
	//go:embed page/answer.css
	answerStyle string
	//go:embed page/answer.html
	answerBody string
	//go:embed page/answer.js
	answerScript string

	//go:embed page/locks.css
	locksStyle string
	//go:embed page/locks.html
	locksBody string
	//go:embed page/locks.js
	locksScript string

	//go:embed page/waits.css
	waitsStyle string
	//go:embed page/waits.html
	waitsBody string
	//go:embed page/waits.js
	waitsScript string
	//go:embed page/waits_draw.js
	waitsDrawScript string
	//go:embed page/waits_use.js
	waitsUseScript string

	//go:embed page/chain.css
	chainStyle string
	//go:embed page/chain.html
	chainBody string
	//go:embed page/chain.js
	chainScript string
)

// HTML writes a page with the answer, a table of the locks, a time line of the
// waits with what the owners of locks did meanwhile, and a flame graph of the waits, by the
// stacks that released the locks if blame is set. The report must be of a, which must have
// Options.Calls, and made with the View, whose Top must be 0.
//
// The size of the page is bounded, see maxRows and limits; the page says what it
// leaves out.
func HTML(w io.Writer, a *futex.Analysis, r *futex.Report, v futex.View, blame bool) error {
	table := newTable(r)
	lines, err := waitLines(a, r, v, table, defaultLimits)
	if err != nil {
		return err
	}
	report := page.Part{ // its scripts use definitions of the ones before them
		Style:  answerStyle + locksStyle + waitsStyle + chainStyle,
		Body:   answerBody + locksBody + waitsBody + chainBody,
		Script: answerScript + locksScript + waitsScript + waitsDrawScript + chainScript + waitsUseScript,
	}
	waits := profileOf(r, table.row)
	if blame {
		waits = blameOf(r, table.row)
	}
	flame, stacks := profile.Flame(waits)
	data := []page.Data{jsonData("answer", newAnswer(r)), jsonData("locks", table), jsonData("waits", lines), stacks}
	return page.Write(w, "ustack: waits for locks", []page.Part{report, flame}, data)
}

func jsonData(id string, v any) page.Data {
	return page.Data{ID: id, Write: func(out *bufio.Writer) error {
		if err := plainjson.NewEncoder(out).Encode(v); err != nil {
			return fmt.Errorf("encoding the %s: %w", id, err)
		}
		return nil
	}}
}

// answer is what the page begins with, in the lines of the text report.
type answer struct {
	// Hangs is set if threads hang; then the verdict comes first. Lossy is set if
	// records were lost.
	Hangs   bool     `json:"hangs"`
	Lossy   bool     `json:"lossy"`
	Verdict []string `json:"verdict"`
	Summary []string `json:"summary"`
	Impact  []string `json:"impact"` // if it was asked for
	Loss    []string `json:"loss"`
	Blocked []string `json:"blocked"`
	Besides []string `json:"besides"`
}

// answerTop is how many waits that have not ended the answer lists: twice that.
const answerTop = 5

// impactTop is of how many locks it lists their part of the critical path.
const impactTop = 20

func newAnswer(r *futex.Report) *answer {
	t := &text{r: r, opt: Options{Top: answerTop}}
	words := func(write func()) []string {
		list := []string{}
		for _, line := range t.lines(write) {
			list = append(list, framejson.Clean(line))
		}
		return list
	}
	out := &answer{Hangs: r.Verdict.LockUp(), Lossy: r.Loss.Any(), Verdict: words(t.verdict),
		Summary: words(func() { t.summary(); t.reach() }), Impact: words(func() { t.opt.Top = impactTop; t.impact(); t.opt.Top = answerTop })}
	out.Loss, out.Blocked, out.Besides = words(func() { t.losses(); t.notes() }), words(t.blocked), words(t.odd) // loss is what summary does not have
	return out
}

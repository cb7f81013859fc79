//go:build !device

package report

import (
	"fmt"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs/capturetest"
)

// sampledScene is chainScene with ticks of the timer: in the owner, and in the thread that the
// owner waits for.
func sampledScene() string {
	text := chainScene()
	tick := func(before string, us, tid, cpu, addr int) {
		comm := map[int]string{12: "owner", 13: "root</td>"}[tid]
		lines := call(comm, tid, cpu, 1_000_000+us, "rcu_utilization: Start scheduler-tick") + call(comm, tid, cpu, 1_000_000+us, "<user stack trace>")
		lines = strings.ReplaceAll(lines, " ..... ", " d.h.. ") + fmt.Sprintf(" =>  <%016x>\n", addr)
		at := strings.LastIndex(text[:strings.Index(text, " "+before+":")], "\n") + 1
		text = text[:at] + lines + text[at:]
	}
	tick("1.000200", 150, 12, 0, 0x5000000)
	tick("1.000400", 340, 12, 0, 0x5000000)
	tick("1.000400", 350, 12, 0, 0x6000000)
	tick("1.000700", 600, 13, 2, 0x7000000)
	return text
}

// TestSamplesInBrowser: with a wait that is chosen comes where the owner computed, and the thread
// that the owner waited for; of a wait in which that is not known nothing stays.
func TestSamplesInBrowser(t *testing.T) {
	capturetest.NeedLong(t)
	const samples = `[...byId("chain-samples").children].map(e => e.textContent).join("\n")`
	b := open(t, sampledScene())
	shows(t, b, "the samples of no wait", samples, "")
	b.Eval(`document.querySelector("[data-key='0']").focus()`)
	b.Key("Tab")
	drawn(b)
	shows(t, b, "the wait", samples, strings.Join([]string{
		"root</td>-13 held #2 mutex 0x2000 in waiter, process 7 for 129 us or more until 1.000700 and computed at 0x7000000 (100 % of 1 sample)",
		"owner-12 held it for 679 us or more until 1.000800 and computed at 0x5000000 (67 % of 3 samples), at 0x6000000 (33 %)",
		"In all holds of it, owners computed at 0x5000000 (67 % of 3 samples), at 0x6000000 (33 %)",
	}, "\n"))
	b.Key("ArrowDown")
	drawn(b)
	shows(t, b, "the other wait", samples, strings.Join([]string{
		"root</td>-13 held it for 129 us or more until 1.000700 and computed at 0x7000000 (100 % of 1 sample)",
		"In all holds of it, owners computed at 0x7000000 (100 % of 1 sample)",
	}, "\n"))
	b.Quiet()
}

// TestSampledRows: samples are of locks with a row of their own, of as many as there is room for.
func TestSampledRows(t *testing.T) {
	var r futex.Report
	for i := range 2 * maxRows {
		r.Locks = append(r.Locks, &futex.Lock{Rank: i + 1, Holds: &futex.Holds{Samples: 2, Sampled: []futex.Sampled{{Count: 1}, {Stack: sampledStack("shopd work ."), Count: 1}}}})
	}
	r.Locks[1].Holds = nil
	r.Locks[2].Holds = &futex.Holds{Samples: 1, Sampled: []futex.Sampled{{Count: 1}}}
	c := &collector{r: &r, table: newTable(&r), words: newWords()}
	c.samples()
	if n := len(c.out.Sampled); n != maxSampledLocks || c.out.Sampled[1].Lock != 3 || len(c.words.names) != 1 {
		t.Errorf("%d locks have samples, the second is %+v", n, c.out.Sampled[1])
	}
	if _, ok := c.sampled(r.Locks[maxRows], 2, r.Locks[0].Holds.Sampled); ok {
		t.Error("a lock in the row of many has samples")
	}
}

// TestImpactInPage: what the run time depends on is in the page, if it is asked for.
func TestImpactInPage(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		a := analyseFor(t, futex.Options{Calls: true, Impact: futex.ImpactView{On: wanted}}, chainScene())
		r := a.Report(futex.View{})
		if wanted {
			r.Impact = a.Impact()
		}
		var page strings.Builder
		if err := HTML(&page, a, r, futex.View{}, false); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(page.String(), `"impact":["Critical path of 900 us to thread `); got != wanted {
			t.Errorf("wanted %v, but it is %v that the page has a critical path", wanted, got)
		}
	}
}

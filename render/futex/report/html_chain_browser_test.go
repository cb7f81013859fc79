//go:build !device

package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs/capturetest"
)

// chainScene is a wait for a lock whose owner runs, is preempted, sleeps and then waits for
// another lock, whose owner runs.
func chainScene() string {
	off := func(tid int, state string, next int) string {
		return fmt.Sprintf("sched_switch: prev_comm=a prev_pid=%d prev_prio=120 prev_state=%s ==> next_comm=b next_pid=%d next_prio=120", tid, state, next)
	}
	on := func(tid int) string { return off(0, "R", tid) }
	waking := func(tid int) string { return fmt.Sprintf("sched_waking: comm=a pid=%d prio=120 target_cpu=000", tid) }
	var b strings.Builder
	at := func(us, tid, cpu int, body string) {
		comm := map[int]string{0: "<idle>", 11: "waiter", 12: "owner", 13: "root</td>"}[tid]
		b.WriteString(call(comm, tid, cpu, 1_000_000+us, body))
	}
	for cpu, tid := range []int{12, 11, 13} { // a thread that was seen to leave is known to be there
		at(0, 0, cpu, on(tid))
		at(10, tid, cpu, off(tid, "R", 0))
		at(20, 0, cpu, on(tid))
	}
	at(100, 11, 1, wait(0x1000))
	at(101, 11, 1, off(11, "S", 0))
	at(200, 12, 0, off(12, "R", 0))
	at(300, 0, 0, on(12))
	at(400, 12, 0, off(12, "S", 0))
	at(500, 0, 0, waking(12))
	at(500, 0, 0, on(12))
	at(550, 12, 0, wait(0x2000))
	at(551, 12, 0, off(12, "S", 0))
	at(700, 13, 2, wake(0x2000))
	at(701, 13, 2, waking(12))
	at(702, 13, 2, "sys_futex -> 0x1")
	at(703, 0, 0, on(12))
	at(703, 12, 0, "sys_futex -> 0x0")
	at(800, 12, 0, wake(0x1000))
	at(801, 12, 0, waking(11))
	at(802, 12, 0, "sys_futex -> 0x1")
	at(803, 0, 1, on(11))
	at(803, 11, 1, woken)
	at(900, 13, 2, off(13, "X", 0))
	at(900, 12, 0, off(12, "X", 0))
	at(900, 11, 1, off(11, "X", 0))
	return b.String()
}

// TestChainInBrowser: with a wait that is chosen comes the time line of the lock's owner.
func TestChainInBrowser(t *testing.T) {
	capturetest.NeedLong(t)
	b := open(t, chainScene())
	shows(t, b, "the chain of no wait", `byId("chain").hidden`, "true")
	b.Eval(`document.querySelector("[data-key='0']").focus()`)
	b.Key("Tab")
	drawn(b)
	shows(t, b, "the wait", `byId("chain-title").textContent`, "waiter-11 (process 7) waited 703 us from 1.000100, #1 mutex 0x1000 in waiter, process 7")
	shows(t, b, "the parts", `[...byId("chain-parts").tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent).join("|")).join("\n")`, strings.Join([]string{
		"1.000100|100 us|owner-12|ran|", "1.000200|100 us|owner-12|runnable|", "1.000300|100 us|owner-12|ran|", "1.000400|100 us|owner-12|blocked in unknown call|",
		"1.000500|51.0 us|owner-12|ran|", "1.000551|149 us|owner-12, which waited for root</td>-13|ran|",
		"1.000701|2.00 us|owner-12|runnable|", "1.000703|97.0 us|owner-12|ran|",
	}, "\n"))
	shows(t, b, "the sums", `byId("chain-more").textContent`, "ran 70.70 %, runnable 14.51 %, blocked 14.22 %; hand-over or unknown (striped) 0.57 %.")
	shows(t, b, "the colors", `[...byId("chain-line").children].map(e => e.className + " " + Math.round(parseFloat(e.style.left)) + "+" + Math.round(parseFloat(e.style.width))).join(" ")`,
		"ran 0+14 runnable 14+14 ran 28+14 blocked 43+14 ran 57+7 ran 64+21 runnable 85+0 ran 86+14")
	b.Key("ArrowDown")
	drawn(b)
	shows(t, b, "the other wait", `byId("chain-title").textContent`, "owner-12 (process 7) waited 153 us from 1.000550, #2 mutex 0x2000 in waiter, process 7")
	b.Quiet()
}

// TestChainData: the data of the page have who was waited for, in order and within the wait.
func TestChainData(t *testing.T) {
	var page strings.Builder
	a := analyse(t, chainScene())
	if err := HTML(&page, a, a.Report(futex.View{}), futex.View{}, true); err != nil {
		t.Fatal(err)
	}
	var d timeLines
	for _, m := range dataScript.FindAllStringSubmatch(page.String(), -1) {
		if m[1] == "waits" {
			if err := json.Unmarshal([]byte(m[2]), &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(d.Chains) != 2 || !strings.Contains(page.String(), `"title":"waits for locks, by what released them"`) {
		t.Fatalf("%d chains", len(d.Chains))
	}
	for _, c := range d.Chains {
		last := c.From
		for _, p := range c.Parts {
			if p[0] < last || p[1] <= 0 || p[2] < 0 || p[2] > 2 || len(p) < 6 {
				t.Errorf("line %d from %d: %v", c.Line, c.From, p)
			}
			last = p[0] + p[1]
		}
		if len(c.Parts) == 0 || last > c.From+703_000 {
			t.Errorf("%+v", c)
		}
	}
}

package resolve

import (
	"slices"
	"testing"
)

// jumps notes which stacks it is asked about have jumped.
type jumps []bool

func (j *jumps) Attribute(s *Query) { *j = append(*j, s.Jumped) }

// TestJumped: the stack of an entry into the kernel by sigreturn(2) is not that of the events
// that requested it, and that of the next entry is.
func TestJumped(t *testing.T) {
	const head = "              ab-71      [000] .....     1.00000"
	entry := func(event, cookie string) string {
		return head + "1: " + event + "\n" + head + "2: cookie=" + cookie + "\n" +
			head + "3: <user stack unwind>\ncookie=" + cookie + "\n =>  <0000000000001100> : 0xabcd0001\n"
	}
	var got jumps
	r := New(Options{Sources: 1, Stitch: true, Hold: Limits{Lines: 1000}, Attributor: &got})
	r.Add(scannedEvents(t, 0, entry("sys_futex(uaddr: 7f, op: 80)", "100000001")+entry("sys_rt_sigreturn()", "300000001")+
		entry("sys_enter: NR 15 (7f, 0, 0, 0, 0, 0)", "500000001")+entry("sched_switch: prev_comm=ab", "700000001")))
	r.End()
	for r.Next() != nil {
	}
	if want := (jumps{false, true, true, false}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

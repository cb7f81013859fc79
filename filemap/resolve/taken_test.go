package resolve

import (
	"slices"
	"testing"

	"ustack/tracefs"
)

// taking notes the time of each stack, and that of its event.
type taking [][2]tracefs.Time

func (x *taking) Attribute(s *Query) { *x = append(*x, [2]tracefs.Time{s.Time / 1000, s.Event / 1000}) }

// TestTaken: a stack that the kernel took at once is of the time of its event, also where
// an interrupt came between the two, with an event that has a stack or none.
func TestTaken(t *testing.T) {
	record := func(tid, cpu, context, time, body string) string {
		return "              ab-" + tid + "      [" + cpu + "] .." + context + ".. 1." + time + ": " + body + "\n"
	}
	stack := func(tid, cpu, context, time string) string {
		return record(tid, cpu, context, time, "<user stack trace>\n =>  <0000000000001100>")
	}
	trace := record("71", "000", ".", "000010", "sys_futex(uaddr: 7f, op: 80)") +
		record("72", "001", ".", "000020", "sys_futex(uaddr: 7f, op: 80)") +
		record("71", "000", "h", "000030", "hrtimer_cancel: hrtimer=1") +
		stack("71", "000", "h", "000040") +
		stack("72", "001", ".", "000050") +
		stack("71", "000", ".", "000060") +
		record("71", "000", ".", "000070", "sys_futex(uaddr: 7f, op: 80)") +
		record("71", "000", "Z", "000080", "nmi_handler: nmi") +
		stack("71", "000", ".", "000090") +
		record("73", "000", ".", "000100", "sys_futex(uaddr: 7f, op: 80)") +
		"CPU:0 [LOST 5 EVENTS]\n" +
		stack("73", "000", ".", "000110") +
		record("74", "000", ".", "000120", "sys_futex(uaddr: 7f, op: 80)") +
		record("74", "000", "1", "000130", "page_fault_kernel: address=0x7f") + // while the stack is read, which has no stack
		stack("74", "000", ".", "000140") +
		record("74", "000", ".", "000150", "sys_futex(uaddr: 7f, op: 80)") +
		stack("74", "000", ".", "000160")
	want := taking{{1000040, 1000030}, {1000050, 1000020}, {1000060, 1000010}, {1000090, 1000070}, {1000110, 0}, {1000140, 1000120}, {1000160, 1000150}}
	for _, cut := range []int{len(trace), len(record("71", "000", ".", "000010", "sys_futex(uaddr: 7f, op: 80)"))} { // batches
		var got taking
		r := New(Options{Sources: 1, Stitch: true, Hold: Limits{Lines: 1000}, Attributor: &got})
		r.Add(scannedEvents(t, 0, trace[:cut]))
		if cut < len(trace) {
			r.Add(scannedEvents(t, 1, trace[cut:]))
		}
		r.End()
		for r.Next() != nil {
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

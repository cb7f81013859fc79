package resolve

import (
	"slices"
	"testing"

	"ustack/tracefs"
)

// asking notes since when each stack was asked for.
type asking []tracefs.Time

func (x *asking) Attribute(s *Query) { *x = append(*x, s.Asked/1000) }

// TestAskedSinceEvent: a deferred stack is asked for by an event. The cookie comes right after
// it, or after an interrupt. An event that has none is over.
func TestAskedSinceEvent(t *testing.T) {
	record := func(tid, context, time, body string) string {
		return "              ab-" + tid + "      [000] .." + context + ".. 1." + time + ": " + body + "\n"
	}
	event := func(time string) string { return record("71", ".", time, "sys_futex(uaddr: 7f, op: 80)") }
	stack := func(time, cookie string) string {
		return record("71", ".", time, "<user stack unwind>\ncookie="+cookie+"\n =>  <0000000000001100> : 0x1234")
	}
	trace := event("000010") +
		record("71", "h", "000020", "hrtimer_cancel: hrtimer=1") +
		record("71", "h", "000030", "cookie=500000001") +
		record("71", ".", "000040", "cookie=500000001") +
		stack("000050", "500000001") +
		event("000060") + // without a cookie
		stack("000070", "500000001") +
		event("000080") +
		record("71", ".", "000090", "cookie=700000001") +
		stack("000100", "700000001")
	want := asking{1000010, 1000010, 1000080}
	var got asking
	r := New(Options{Sources: 1, Stitch: true, Hold: Limits{Lines: 1000}, Attributor: &got})
	r.Add(scannedEvents(t, 0, trace))
	r.End()
	for r.Next() != nil {
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

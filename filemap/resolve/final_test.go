package resolve

import (
	"testing"

	"ustack/filemap"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// scannedEvents is scanned with the events.
func scannedEvents(t *testing.T, pos int64, records string) *tracefs.Batch {
	t.Helper()
	b := &tracefs.Batch{Text: []byte(records), Pos: pos, Line: pos}
	s := text.NewScanner()
	s.Events = true
	if _, err := s.Scan(b, text.MoreNever); err != nil {
		t.Fatal(err)
	}
	return b
}

// firstName returns the path and the trust of the first frame of the first event's stack.
func firstName(t *testing.T, h *Pending) string {
	t.Helper()
	if h == nil || h.Attached[0].Stack == nil {
		t.Fatal("the event has no stack")
	}
	a := &h.Attached[0].Stack.Attributions[0]
	if a.File == nil {
		return a.Reason.String()
	}
	return a.File.Path + " " + a.Trust.String()
}

// TestUndecidedHeld: an event does not go out while it is not decided whether a mapping event
// is of its stack, which is in a later batch: it could be read while that changes.
func TestUndecidedHeld(t *testing.T) {
	r := New(Options{Sources: 1, Stitch: true, Hold: Limits{Lines: 1000}})
	r.Add(scannedEvents(t, 0, "              ab-71      [000] .....     1.000001: sys_futex -> 0x0\n              ab-71      [000] .....     1.000002: cookie=300000001\n"))
	const stack = "              ab-71      [000] .....     1.000003: <user stack unwind>\ncookie=300000001\n =>  <0000000000001100> : 0xabcd0001\n"
	r.Add(scannedEvents(t, 1000, stack+
		"              ab-71      [000] .....     1.000010: file_map: hash=0xabcd0001 path=/lib/later.so build_id={0x1,0x0,0x0,0x0,0x0}\n"+
		"              ab-71      [000] .....     1.000011: cookie=500000001\n"))
	if h := r.Next(); h != nil {
		t.Errorf("an event went out with %s", firstName(t, h))
	}
	if err := r.names.checkAll(&r.tasks); err != nil {
		t.Error(err)
	}
	// A mapping event in the same entry into the kernel as an event shows that they ask for stacks.
	r.Add(scannedEvents(t, 2000, "              ef-73      [002] .....     2.000002: cookie=100000003\n"+
		"              ef-73      [002] .....     2.000004: file_map: hash=0xabcd0009 path=/lib/first.so build_id={0x9,0x0,0x0,0x0,0x0}\n"+
		"              ef-73      [002] .....     2.000005: cookie=100000003\n"))
	if err := r.names.checkAll(&r.tasks); err != nil {
		t.Error(err)
	}
	if got := firstName(t, r.Next()); got != "/lib/later.so claimed" {
		t.Errorf("the event has %s", got)
	}
}

// TestTiedHeld: an event does not go out before all records of the time of its stack have come:
// a mapping event of another input can be among them.
func TestTiedHeld(t *testing.T) {
	r := New(Options{Sources: 2, Stitch: true, Hold: Limits{Lines: 1000}})
	event := func(line int64, records string, source uint8) {
		b := scannedEvents(t, line, records)
		for i := range b.Records {
			b.Records[i].Source = source
		}
		b.Heads = append(b.Heads, b.Heads[0])
		r.Add(b)
	}
	// name is that of the event, "" while it is held.
	name := func() string {
		for h := r.Next(); h != nil; h = r.Next() {
			if h.Pos == 1000 {
				return firstName(t, h)
			}
		}
		return ""
	}
	event(0, "              cd-72      [001] .....     0.000001: file_map: hash=0xabcd0001 path=/lib/a.so build_id={0x1,0x0,0x0,0x0,0x0}\n", 0)
	event(500, "              cd-72      [001] .....     0.000002: cookie=700000002\n", 0)
	event(1000, "              ab-71      [000] .....     1.000001: sys_futex -> 0x0\n              ab-71      [000] .....     1.000002: cookie=300000001\n", 0)
	event(2000, "              ab-71      [000] .....     1.000010: <user stack unwind>\ncookie=300000001\n =>  <0000000000001100> : 0xabcd0001\n"+
		"              ab-71      [000] .....     1.000010: cookie=500000001\n", 0)
	if got := name(); got != "" {
		t.Errorf("the event went out with %s", got)
	}
	event(3000, "              xy-99      [001] .....     1.000010: file_map: hash=0xabcd0001 path=/lib/b.so build_id={0x2,0x0,0x0,0x0,0x0}\n", 1)
	event(4000, "              xy-99      [001] .....     1.000020: cookie=700000001\n", 1)
	if got := name(); got != filemap.Ambiguous.String() {
		t.Errorf("the event has %s", got)
	}
}

// TestFinalStays: nothing changes in a batch that is final.
func TestFinalStays(t *testing.T) {
	r := New(Options{Sources: 1, Stitch: true, Hold: Limits{Lines: 1000}})
	r.Add(scannedEvents(t, 0, "              ab-71      [000] .....     1.000003: <user stack unwind>\ncookie=300000001\n =>  <0000000000001100> : 0xabcd0001\n"))
	h := r.queue.list[0]
	r.settle(h)
	id, was := h.Frames[0].ID, h.Attributions[0]
	for _, o := range []Attribution{unnamed(filemap.Lost), owned(&filemap.Binding{File: &filemap.File{Path: "/a"}})} {
		h.restate(0, id, o)
		h.Attributions[0].own = true
		h.disown(0, id, o)
		h.Attributions[0].own = was.own
		if h.Attributions[0] != was {
			t.Errorf("a final frame has %+v, had %+v", h.Attributions[0], was)
		}
	}
}

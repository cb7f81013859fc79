package recorder

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/render/record"
	"ustack/tracefs/capturetest"
)

// TestRingDeadlock: a deadlock is a trigger once, when it is there, and a report can begin.
func TestRingDeadlock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.zst")
	o := NewRing(Options{Name: name, Proc: "/proc", Version: "test", Reporter: &live.Reporter{Command: "record", Out: new(bytes.Buffer)}},
		RingOptions{MaxFiles: 9, CoolDown: time.Hour, Triggers: []record.Trigger{{Deadlock: true}, {Loss: true}}})
	clock := time.Unix(1000, 0)
	o.now = func() time.Time { clock = clock.Add(lookEvery); return clock }
	needs, err := o.Open(&live.Start{Wake: func(string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if needs.Tick == 0 || !needs.Processes {
		t.Errorf("needs %+v: a deadlock is silent", needs)
	}
	var text strings.Builder
	say := func(tid, ms int, body string) {
		fmt.Fprintf(&text, "%16s-%-7d (%7d) [000] ..... %5d.%06d: %s\n", "t", tid, 9, ms/1000, ms%1000*1000, body)
	}
	wait := func(tid, ms, addr int) {
		say(tid, ms, fmt.Sprintf("sys_futex(uaddr: 0x%x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", addr))
	}
	locks := []int{0x1010, 0x1020, 0x1030}
	take := func(want int) {
		t.Helper()
		if err := o.Batch(resolved(t, []byte(text.String()))); err != nil {
			t.Fatal(err)
		}
		text.Reset()
		for range 5 {
			if _, err := o.Step(new(resolve.Totals)); err != nil {
				t.Fatal(err)
			}
		}
		if o.reports != want {
			t.Errorf("%d reports, want %d", o.reports, want)
		}
	}
	for i, addr := range locks { // each gets one
		wait(10*(i+1), 100+i, addr)
		say(40, 200+20*i, fmt.Sprintf("sys_futex(uaddr: 0x%x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)", addr))
		say(40, 210+20*i, "sys_futex -> 0x1")
		say(10*(i+1), 300+i, "sys_futex -> 0x0")
	}
	take(0)
	o.trigger("loss", nil)
	take(1)
	for i := range locks { // and waits for the next
		wait(10*(i+1), 400+i, locks[(i+1)%len(locks)])
	}
	say(50, 9000, "sys_getpid()")
	take(1) // it cools down
	clock = clock.Add(time.Hour)
	take(2)
	clock = clock.Add(time.Hour)
	take(2)
	if head := capturetest.Read(t, name+".1"); !bytes.Contains(head, []byte("# ustack: trigger=deadlock [10 20 30]\n")) {
		t.Errorf("%.600s", head)
	}
	if err := o.End(); err != nil {
		t.Fatal(err)
	}
}

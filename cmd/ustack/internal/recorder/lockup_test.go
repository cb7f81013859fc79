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
	locks := []int{0x1010, 0x1020, 0x1030}
	get := func(first, at int) { // each thread gets one
		for i, addr := range locks {
			wait(first+10*i, at+100+i, addr+first<<16)
			say(40, at+200+20*i, fmt.Sprintf("sys_futex(uaddr: 0x%x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)", addr+first<<16))
			say(40, at+210+20*i, "sys_futex -> 0x1")
			say(first+10*i, at+300+i, "sys_futex -> 0x0")
		}
	}
	lockUp := func(first, at int) { // and waits for the next
		for i := range locks {
			wait(first+10*i, at+400+i, locks[(i+1)%len(locks)]+first<<16)
		}
		say(50, at+9000, "sys_getpid()")
	}
	get(10, 0)
	take(0)
	o.trigger("loss", nil)
	take(1)
	lockUp(10, 0)
	take(1) // it cools down
	clock = clock.Add(time.Hour)
	take(2)
	clock = clock.Add(time.Hour)
	take(2)
	for i := range locks { // it ends, and there is another one
		say(10+10*i, 10_000+i, "sys_futex -> 0x0")
	}
	get(11, 10_000)
	lockUp(11, 10_000)
	take(3)
	if head := capturetest.Read(t, name+".1"); !bytes.Contains(head, []byte("# ustack: trigger=deadlock [10 20 30]\n")) {
		t.Errorf("%.600s", head)
	}
	if head := capturetest.Read(t, name+".2"); !bytes.Contains(head, []byte("# ustack: trigger=deadlock [11 21 31]\n")) {
		t.Errorf("%.600s", head)
	}
	if err := o.End(); err != nil {
		t.Fatal(err)
	}
}

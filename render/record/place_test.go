package record

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/render/cause"
)

// TestDetectorCause: a long wait has the place where it began and, if the futex was woken since,
// the place of that.
func TestDetectorCause(t *testing.T) {
	const id = " build_id={0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253}\n"
	var text strings.Builder
	at := 100_000_000 // us
	say := func(tid int, body string, offsets ...int) {
		head := fmt.Sprintf("            task-%d       (      5) [000] .....   %d.%06d: ", tid, at/1e6, at%1e6)
		text.WriteString(head + body + "\n")
		if len(offsets) > 0 {
			text.WriteString(head + "<user stack trace>\n =>  <0000000000000001> : path=/lib/libc.so.6" + id)
		}
		for _, o := range offsets {
			fmt.Fprintf(&text, " =>  <%016x> : path=/opt/app%s", o, id)
		}
		at += 1000
	}
	const wait, wake, back = "sys_futex(uaddr: 0x1000, op: 0x80, val: 2)", "sys_futex(uaddr: 0x1000, op: 0x81, val: 1)", "sys_futex -> 0x0"
	frames := func(offsets ...int64) (list []cause.Frame) {
		for _, o := range offsets {
			list = append(list, cause.FrameOf("b6e5d9c258e911b2e478f8dedf22400e53225509", o, false))
		}
		return list
	}
	d := NewDetector([]Trigger{{Wait: 500 * time.Millisecond}})
	d.KeepCauses()
	for _, c := range []struct {
		what          string
		script        func()
		known         bool
		waiter, owner []cause.Frame
	}{
		{"released", func() { say(7, wait, 10, 11); at += 1e6; say(8, wake, 20, 21); say(8, back, 22); say(7, back, 12) }, true, frames(10, 11), frames(20, 21)},
		{"not released", func() { say(7, wait, 10, 11); at += 1e6; say(7, back, 12) }, true, frames(10, 11), nil},
		{"by another futex", func() {
			say(7, wait, 10, 11)
			say(8, strings.Replace(wake, "1000", "1008", 1), 20)
			at += 1e6
			say(7, back)
		}, true, frames(10, 11), nil},
		{"one frame alone", func() { say(7, wait, 10); at += 1e6; say(8, wake, 20, 21); say(7, back) }, false, nil, nil},
		{"the stack of another call", func() {
			say(7, "sys_read(fd: 3)", 13)
			say(7, "sys_read -> 0x0")
			say(7, wait)
			at += 1e6
			say(7, back, 12)
		}, false, nil, nil},
		{"after a signal", func() {
			say(7, wait, 10, 11)
			say(7, "sys_futex -> 0xfffffffffffffdfc")
			say(7, "sys_restart_syscall()", 10)
			at += 1e6
			say(7, "sys_restart_syscall -> 0x0")
		}, true, frames(10, 11), nil},
	} {
		c.script()
		n := 0
		d.Batch(pending(t, text.String()), func(why string, got *cause.Cause) {
			n++
			if got == nil && !c.known {
				return
			}
			if got == nil || !c.known || got.Kind != "WAIT" || !slices.Equal(got.Waiter, c.waiter) || !slices.Equal(got.Owner, c.owner) {
				t.Errorf("%s: %s: %v, want %x and %x", c.what, why, got, c.waiter, c.owner)
			}
		})
		if n != 1 {
			t.Errorf("%s: %d triggers", c.what, n)
		}
		text.Reset()
	}
	if n := len(d.places.waits); n > 0 {
		t.Errorf("%d places are kept of waits that have ended", n)
	}
}

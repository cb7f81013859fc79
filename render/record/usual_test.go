package record

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTriggerWords reads triggers, and writes them as they are given.
func TestTriggerWords(t *testing.T) {
	for _, word := range []string{"futex-wait>500ms", "futex-wait>10 p99", "futex-wait>2.5 p99", "event=a:b", "deadlock", "loss", "signal"} {
		got, err := ParseTrigger(word)
		if err != nil || got.String() != word {
			t.Errorf("%q: %q, %v", word, got, err)
		}
		if watches := word != "deadlock" && word != "signal"; got.Watches() != watches {
			t.Errorf("%q: Watches is %t", word, !watches)
		}
	}
	if got, err := ParseTrigger("futex-wait>10p99"); err != nil || got.Times != 10 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, word := range []string{"", "futex-wait>", "futex-wait>p99", "futex-wait>0.5p99", "futex-wait>-1p99", "futex-wait>NaNp99", "futex-wait>Infp99", "futex-wait>1e9p99", "event=a", "lost", "deadlock "} {
		if got, err := ParseTrigger(word); err == nil {
			t.Errorf("%q is %+v", word, got)
		}
	}
}

// TestDetectorUsual: a wait is long by what is usual for its lock, and not for others.
func TestDetectorUsual(t *testing.T) {
	var text strings.Builder
	at := 100_000_000 // us
	say := func(body string) {
		fmt.Fprintf(&text, "            task-7       [000] .....   %d.%06d: %s\n", at/1e6, at%1e6, body)
	}
	wait := func(addr, us int, result string) {
		say(fmt.Sprintf("sys_futex(uaddr: 0x%x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", addr))
		at += us
		say("sys_futex -> " + result)
	}
	d := NewDetector([]Trigger{{Times: 10}})
	look := func(want string) {
		t.Helper()
		if why := fired(d, pending(t, text.String())); why != want {
			t.Errorf("%q, want %q", why, want)
		}
		text.Reset()
	}
	wait(0x1000, 900_000, "0x0") // too few waits before
	for i := range 200 {
		wait(0x1000, 100+i%10, "0x0")
		wait(0x2000, 100_000, "0x0")
		wait(0x1000, 1, "0xfffffffffffffff5") // no wait: the futex had changed
	}
	wait(0x1000, 1_000, "0x0")
	wait(0x2000, 900_000, "0x0")
	look("")
	wait(0x1000, 1_200, "0x0")
	look("futex-wait>10 p99 (1.2ms p99 110.591µs)")
	wait(0x3000, 9_000_000, "0x0")
	look("")
}

// TestDetectorLoss: a loss is a trigger if it is asked for.
func TestDetectorLoss(t *testing.T) {
	const text = "CPU:1 [LOST 5 EVENTS]\n            task-7       [000] .....   100.000000: oom_kill: pid=7\n"
	for _, test := range []struct {
		trigger Trigger
		why     string
	}{{Trigger{Loss: true}, "loss"}, {Trigger{Wait: time.Second}, ""}} {
		if why := fired(NewDetector([]Trigger{test.trigger}), pending(t, text)); why != test.why {
			t.Errorf("%v: %q", test.trigger, why)
		}
	}
}

package futex_test

import (
	"fmt"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// oneFile are the mappings of processes of one thread each, which all share a page.
type oneFile struct{}

func (oneFile) Process(tid int32) (int32, bool) { return tid, true }

func (oneFile) SharedFile(_ int32, _ tracefs.Time, _ bool, addr uint64) (id, path string, offset uint64, ok bool) {
	return "0:1:2", "/dev/shm/locks", addr & 0xfff, true
}

// TestCircleFiltered: a circle is found for each of its threads, though only two of
// them have ever waited for the locks of one.
func TestCircleFiltered(t *testing.T) {
	wait := func(addr string) string {
		return "sys_futex(uaddr: " + addr + ", op: 0, val: 2, utime: 0, uaddr2: 0, val3: 0)"
	}
	wake := func(addr string) string {
		return "sys_futex(uaddr: " + addr + ", op: 1, val: 1, utime: 0, uaddr2: 0, val3: 0)"
	}
	var text strings.Builder
	locks := []string{"0x1010", "0x1020", "0x1030"}
	for i, addr := range locks { // each gets one
		fmt.Fprintf(&text, "%d 0 %d %s\n", 10*(i+1), 100+i, wait(addr))
		fmt.Fprintf(&text, "40 1 %d %s\n40 1 %d sys_futex -> 0x1\n", 200+20*i, wake(addr), 210+20*i)
		fmt.Fprintf(&text, "%d 0 %d sys_futex -> 0x0\n", 10*(i+1), 300+i)
	}
	for i := range locks { // and waits for the next
		fmt.Fprintf(&text, "%d 0 %d %s\n", 10*(i+1), 400+i, wait(locks[(i+1)%len(locks)]))
	}
	a := analyseText(t, futex.Options{Mappings: oneFile{}}, script(text.String()))
	for _, view := range []futex.View{{}, {PIDs: []int32{10}}, {PIDs: []int32{30}}, {Comms: []string{"t20"}}} {
		if v := a.Interim(view).Verdict; v.Kind != futex.Deadlock || !v.Sure || len(v.Proof) != 2*len(locks) {
			t.Errorf("%+v: %+v", view, v)
		}
	}
	if v := a.Interim(futex.View{PIDs: []int32{50}}).Verdict; v.LockUp() {
		t.Errorf("of others: %+v", v)
	}
	a.Refused(1)
	if v := a.Interim(futex.View{}).Verdict; v.Kind != futex.Deadlock || v.Sure {
		t.Errorf("with records refused: %+v", v)
	}
}

// TestCannotTell: what is said of who holds a lock is no more than the trace has. Who
// got it may have waited before the trace began.
func TestCannotTell(t *testing.T) {
	const owned = `
		10/9 0 10 ` + waitCall + `
		12/9 1 20 ` + wakeCall + `
		12/9 1 30 sys_futex -> 0x1`
	hangs := `
		10/9 0 100 sys_futex -> 0x0
		11/9 0 200 ` + waitCall + `
		12/9 1 900000 sys_getpid()`
	for trace, want := range map[string]futex.Fact{
		hangs:         {Kind: futex.HolderUnseen},
		owned + hangs: {Kind: futex.HoldsSince, Task: futex.Task{TID: 10, Comm: "t10"}, At: 100_000},
	} {
		v := reportOf(t, trace).Verdict
		if v.Kind != futex.CannotTell || len(v.Proof) != 1 || v.Proof[0].LastUse == nil {
			t.Errorf("%+v, want %+v", v, want)
			continue
		}
		want.Lock = v.Proof[0].Lock
		if got := *v.Proof[0].LastUse; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// TestLongCircle: a circle of many threads is described in few words.
func TestLongCircle(t *testing.T) {
	const threads = 500
	var h hostile
	for i := range threads {
		h.wait(100+i, 0x1000+8*i)
		h.wake(7, 0x1000+8*i)
		h.result(7, 1)
		h.result(100+i, 0)
	}
	for i := range threads {
		h.wait(100+i, 0x1000+(i+1)%threads*8)
	}
	h.at += 1e6
	h.event(7, "sys_close(fd: 0)")
	v := analyseText(t, futex.Options{}, h.b.String()).Report(futex.View{}).Verdict
	if v.Case != futex.Circle || len(v.Tasks) != 16 || v.More != 484 || len(v.Proof) != 32 {
		t.Errorf("%s: %d facts, %d threads and %d more", v.Kind, len(v.Proof), len(v.Tasks), v.More)
	}
}

// TestLostWakeUpOnTheWay: a wakeup that found no thread is one that a later wait has missed
// only if its thread can have been on its way there.
func TestLostWakeUpOnTheWay(t *testing.T) {
	const (
		wakes = `
			11 1 70000 ` + wakeCall + `
			11 1 70001 sys_futex -> 0x0
			`
		waits = ` sys_futex(uaddr: 0x1000, op: 0x80, val: 5, utime: 0, uaddr2: 0, val3: 0)
			`
		ends = "11 1 2000000 sys_getpid()"
	)
	on := func(at int) string {
		return fmt.Sprintf("0 0 %d sched_switch: prev_comm=s prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=t10 next_pid=10 next_prio=120\n", at)
	}
	off := func(at int, state string) string {
		return fmt.Sprintf("10 0 %d sched_switch: prev_comm=t10 prev_pid=10 prev_prio=120 prev_state=%s ==> next_comm=s next_pid=0 next_prio=120\n", at, state)
	}
	// It waits for a mutex, in which the wakeup falls.
	const mutex = `10 0 69002 sys_futex(uaddr: 0x2000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
		`
	for name, c := range map[string]struct {
		trace string
		want  bool
	}{
		"soon":                   {wakes + "10 0 72000" + waits + ends, true},
		"late":                   {wakes + "10 0 133000" + waits + ends, false},
		"preempted":              {on(69000) + off(69100, "R") + wakes + on(132000) + "10 0 133000" + waits + off(133010, "S") + ends, true},
		"slept otherwise":        {on(69000) + off(69100, "S") + wakes + on(132000) + "10 0 133000" + waits + off(133010, "S") + ends, false},
		"slept otherwise, soon":  {on(69000) + off(69100, "S") + wakes + on(71000) + "10 0 71500" + waits + off(71510, "S") + ends, false},
		"ran":                    {on(69000) + wakes + "10 0 133000" + waits + off(133010, "S") + ends, false},
		"waited for a lock":      {on(69000) + mutex + off(69100, "S") + wakes + on(132000) + "10 0 132001 sys_futex -> 0x0\n10 0 133000" + waits + off(133010, "S") + ends, true},
		"came back from a sleep": {off(68000, "S") + on(69900) + wakes + "10 0 71000" + waits + off(71010, "S") + ends, true},
	} {
		if v := reportOf(t, c.trace).Verdict; (v.Kind == futex.LostWakeUp) != c.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestNoLostSignal: a condition variable of glibc keeps the signal that a call has brought.
func TestNoLostSignal(t *testing.T) {
	for call, want := range map[string]bool{
		"sys_futex(uaddr: 0x1000, op: 0x189, val: 0, utime: 0, uaddr2: 0, val3: 0xffffffff)": false,
		"sys_futex(uaddr: 0x1000, op: 0x189, val: 6, utime: 0, uaddr2: 0, val3: 0xffffffff)": true,
	} {
		trace := script("\n11 1 70000 "+wakeCall+"\n11 1 70001 sys_futex -> 0x0\n") +
			strings.ReplaceAll(waitWith(call, 1, false), "    0.000", "    0.072") + script("11 1 2000000 sys_getpid()")
		trace = strings.ReplaceAll(trace, "/bin/p", "/usr/lib/x86_64-linux-gnu/libc.so.6")
		if v := analyseText(t, futex.Options{}, trace).Report(futex.View{}).Verdict; (v.Kind == futex.LostWakeUp) != want {
			t.Errorf("%s: %+v", call, v)
		}
	}
}

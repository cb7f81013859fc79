package futex_test

import (
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

const otherCall = "sys_futex(uaddr: 0x2000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)"

// crossed are two threads that wait for two locks, the second one since 0.2 s.
const crossed = `
	10/10 0 100 ` + waitCall + `
	11/10 1 200000 ` + otherCall + `
	12/10 0 5000000 sched_waking: comm=x pid=99 prio=120 target_cpu=000`

// TestOwnersCircle: who was read to hold a lock before it began to wait may have
// let it go since; after that, it cannot have.
func TestOwnersCircle(t *testing.T) {
	for _, c := range []struct {
		at   tracefs.Time
		want futex.VerdictKind
	}{{100_000_000, futex.CannotTell}, {300_000_000, futex.Deadlock}} {
		a := analyseText(t, futex.Options{}, script(crossed))
		list := a.Waiting(1e12)
		if len(list) != 2 || list[0].TID != 10 || list[0].Address != 0x1000 || list[1].TID != 11 || list[1].Address != 0x2000 {
			t.Fatalf("%+v", list)
		}
		a.Owned(list[0], 11, "t11", c.at)
		a.Owned(list[1], 10, "t10", 400_000_000)
		r := a.Report(futex.View{})
		if r.Verdict.Kind != c.want {
			t.Errorf("read at %d: %+v, want %s", c.at, r.Verdict, c.want)
		}
		if b := r.Blocked[0]; b.TID != 10 || b.Owner != 11 || !b.OwnerRead || b.OwnedFrom != c.at {
			t.Errorf("%+v", b)
		}
		for _, l := range r.Locks {
			if l.Readings != 1 || len(l.Owners) != 1 || l.Owners[0].Count != 1 {
				t.Errorf("%#x: owners %+v", l.Address, l.Owners)
			}
		}
	}
}

// TestUntil: a wait of which the trace has no end has lasted until tracing ended.
func TestUntil(t *testing.T) {
	a := analyseText(t, futex.Options{}, script(crossed))
	a.Until(1) // long ago
	if r := a.Interim(futex.View{}); r.Blocked[0].Time != 5_000_000_000-100_000 {
		t.Errorf("%+v", r.Blocked[0])
	}
	a.Until(9_000_000_000)
	if r := a.Report(futex.View{}); r.Blocked[0].Time != 9_000_000_000-100_000 || r.End != 9_000_000_000 {
		t.Errorf("%+v", r.Blocked[0])
	}
}

// TestOwnersAhead: what was read at a time that the trace has not reached is no
// evidence: by then, who waits in the trace may have gone on.
func TestOwnersAhead(t *testing.T) {
	a := analyseText(t, futex.Options{}, script(crossed))
	list := a.Waiting(1e12)
	a.Owned(list[0], 11, "t11", 6_000_000_000)
	a.Owned(list[1], 10, "t10", 6_000_000_000)
	if r := a.Interim(futex.View{}); r.Verdict.LockUp() || r.Blocked[0].Owner != 0 {
		t.Errorf("%+v, owner %d", r.Verdict, r.Blocked[0].Owner)
	}
	a.Until(6_000_000_000)
	if r := a.Interim(futex.View{}); r.Verdict.Kind != futex.Deadlock || !r.Verdict.Sure {
		t.Errorf("%+v", r.Verdict)
	}
	// What was read before still counts when the newest readings are ahead.
	for _, at := range []tracefs.Time{6_100_000_000, 6_150_000_000, 6_200_000_000} {
		a.Owned(list[0], 11, "t11", at)
		a.Owned(list[1], 10, "t10", at)
	}
	if r := a.Interim(futex.View{}); r.Verdict.Kind != futex.Deadlock || r.Blocked[0].OwnedFrom != 6_000_000_000 {
		t.Errorf("%+v, %+v", r.Verdict, r.Blocked[0])
	}
}

// TestOwnersStale: an owner that was read for a wait that has ended is not used, and a
// name that only memory knows is shown.
func TestOwnersStale(t *testing.T) {
	const text = `
		10/10 0 100 ` + waitCall + `
		10/10 0 300 sys_futex -> 0x0
		10/10 0 400 ` + waitCall + `
		12/10 0 5000 sched_waking: comm=x pid=99 prio=120 target_cpu=000`
	a := futex.New(futex.Options{})
	var stale []futex.Waiting
	steps(t, script(text), a, func(int) bool { return true })
	if now := a.Waiting(350_000); len(now) != 0 {
		t.Errorf("waits since 400 µs: %+v", now)
	}
	now := a.Waiting(400_000)
	if len(now) != 1 {
		t.Fatalf("%+v", now)
	}
	stale = append(stale, now[0])
	a.Owned(now[0], 77, "unknown", 4_000_000)
	r := a.Interim(futex.View{})
	if l := r.Locks[0]; l.Readings != 1 || l.Owners[0].TID != 77 || l.Owners[0].Comm != "unknown" {
		t.Errorf("%+v", l.Owners)
	}
	if b := r.Blocked[0]; b.Owner != 77 || b.OwnedFrom != 4_000_000 {
		t.Errorf("%+v", b)
	}
	steps(t, script(`
		10/10 0 6000 sys_futex -> 0x0
		10/10 0 7000 `+waitCall), a, func(int) bool { return true })
	a.Owned(stale[0], 78, "late", 8_000_000)
	r = a.Report(futex.View{})
	if l := r.Locks[0]; l.Readings != 1 {
		t.Errorf("what was read for another wait counts: %+v", l.Owners)
	}
	if b := r.Blocked[0]; b.Owner == 78 || b.OwnerRead {
		t.Errorf("the owner that was read for another wait is reported: %+v", b)
	}
}

// TestHolderOnTheWay: from a release until the woken thread returns, which can be long on a
// busy machine, other threads can take the lock and release it without a call. Who released
// it is sure to have held it most only if it did so for longer.
func TestHolderOnTheWay(t *testing.T) {
	for _, c := range []struct {
		returns string
		share   float64
		sure    bool
	}{{"1100", 10.0 / 11, true}, {"5000", 1.0 / 5, false}} {
		r := reportOf(t, `
			10 0 0 `+waitCall+`
			11 1 1000 `+wakeCall+`
			11 1 1001 sys_futex -> 0x1
			10 0 `+c.returns+` sys_futex -> 0x0`)
		if len(r.Longest) != 1 {
			t.Fatalf("%d waits", len(r.Longest))
		}
		h := r.Longest[0].Holder
		if h.TID != 11 || h.Sure != c.sure || h.Share < c.share-0.01 || h.Share > c.share+0.01 {
			t.Errorf("returned at %s us: %+v", c.returns, h)
		}
	}
}

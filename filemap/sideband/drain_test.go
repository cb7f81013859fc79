package sideband

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/perf/perftest"
)

// testRing is a ring in our own memory, to which the test writes as the kernel.
type testRing struct {
	*ring
	kernel *perftest.Ring
}

func fakeRing(cpu, size int) *testRing {
	kernel := perftest.NewRing(cpu, size)
	return &testRing{&ring{Ring: kernel.Ring}, kernel}
}

// write writes records, and reports whether there was room.
func (r *testRing) write(records ...[]byte) bool { return r.kernel.Write(records...) }

// fakeBand is a band of fake rings.
func fakeBand(rings ...*testRing) *Band {
	far := tracefs.Time(space.Forever / 2)
	b := newBand(space.New(), Options{}, unix.CLOCK_MONOTONIC)
	b.expired, b.hotplug = far, perf.NewHotplug("", far)
	for _, r := range rings {
		b.rings.list = append(b.rings.list, r.ring)
	}
	return b
}

// TestMerge: records of several CPUs come in order of time, what is after the
// call waits for the next one.
func TestMerge(t *testing.T) {
	a, c := fakeRing(0, 1<<14), fakeRing(1, 1<<14)
	b := fakeBand(a, c)
	now := uint64(b.Now())
	const exec = unix.PERF_RECORD_MISC_COMM_EXEC
	a.write(rawTask(unix.PERF_RECORD_FORK, 20, 1, 20, 1, now-50, 0), rawMap(20, 20, 0x1000, 0x1000, 0, rx, 2, "/third", now-20),
		rawTask(unix.PERF_RECORD_FORK, 30, 20, 30, 20, now+1e12, 0))
	c.write(rawComm(20, 20, exec, "second", now-30, 1), rawTask(unix.PERF_RECORD_EXIT, 20, 1, 20, 1, now-10, 1),
		rawComm(30, 30, exec, "later", now+1e12+1, 1))
	d, err := b.Drain()
	if err != nil || d.Records != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	versions := b.History.Spaces.Space(20).Versions()
	if len(versions) != 2 || versions[1].Comm != "second" || versions[1].Mappings.Len() != 1 || versions[1].To != tracefs.Time(now-10) {
		t.Errorf("%+v", versions)
	}
	if b.History.Spaces.Space(30) != nil {
		t.Error("what is still to come has come")
	}
	b.clock = unix.CLOCK_REALTIME // by which that time has come
	if d, err := b.Drain(); err != nil || d.Records != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	if v := b.History.Spaces.Space(30).Versions(); len(v) != 2 || v[1].Comm != "later" {
		t.Errorf("%+v", v)
	}
	if d, err := b.Drain(); err != nil || d.Records != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestLost: losses are counted once, whichever report comes first, and begin after
// the last record that was not lost.
func TestLost(t *testing.T) {
	r := fakeRing(3, 1<<14)
	var log bytes.Buffer
	b := fakeBand(r)
	b.History.log = &logWriter{w: &log}
	now := uint64(b.Now())
	lost := func(n, t uint64) []byte { return raw(unix.PERF_RECORD_LOST, 0, t, 3, perftest.U64(1, n)) }
	r.write(rawTask(unix.PERF_RECORD_FORK, 20, 1, 20, 1, now-500, 3), lost(5, now-400), lost(2, now-390))
	d, err := b.Drain()
	if err != nil || d.Lost != 7 || !d.Doubt {
		t.Errorf("%+v, %v", d, err)
	}
	for at, want := range map[uint64]bool{now - 501: false, now - 500: true, now: true} {
		if b.History.Gaps.Doubtful(tracefs.Time(at)) != want {
			t.Errorf("%d ns ago: doubt %v", now-at, !want)
		}
	}
	b.History.sure(tracefs.Time(now - 300))
	if b.History.Gaps.Doubtful(tracefs.Time(now-300)) || !b.History.Gaps.Doubtful(tracefs.Time(now-301)) {
		t.Error("the doubt does not end where it should")
	}
	if !strings.Contains(log.String(), " 3 5\n") || !strings.Contains(log.String(), " 3 2\n") {
		t.Errorf("the log has\n%s", log.String())
	}
}

// TestMalformed: bytes that are no record make doubt, and the other rings go on.
func TestMalformed(t *testing.T) {
	a, c := fakeRing(0, 1<<14), fakeRing(1, 1<<14)
	b := fakeBand(a, c)
	now := uint64(b.Now())
	a.write(rawTask(unix.PERF_RECORD_FORK, 20, 1, 20, 1, now-5, 0), make([]byte, 64))
	c.write(rawTask(unix.PERF_RECORD_FORK, 21, 1, 21, 1, now-4, 0), raw(unix.PERF_RECORD_MMAP2, 0, now-4, 1, perftest.U64(1)))
	d, err := b.Drain()
	if err != nil || d.Malformed != 2 || !d.Doubt || d.Records != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	if b.History.Threads.Live(20) != 1 || b.History.Threads.Live(21) != 1 {
		t.Error("what was before is lost")
	}
	a.write(rawTask(unix.PERF_RECORD_FORK, 22, 1, 22, 1, now-3, 0))
	if d, err := b.Drain(); err != nil || d.Malformed != 0 || d.Records != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestForeign: processes outside of our PID namespace are left out.
func TestForeign(t *testing.T) {
	r := fakeRing(0, 1<<14)
	b := fakeBand(r)
	now := uint64(b.Now())
	for _, pid := range []int{0, -1} {
		r.write(rawTask(unix.PERF_RECORD_FORK, pid, 1, pid, 1, now-5, 0), rawComm(pid, pid, 0, "x", now-4, 0),
			rawMap(pid, pid, 0x1000, 0x1000, 0, rx, 2, "//anon", now-3), rawTask(unix.PERF_RECORD_EXIT, pid, 1, pid, 1, now-2, 0))
	}
	if d, err := b.Drain(); err != nil || d.Malformed != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if list := b.History.Threads.processes(); len(list) != 0 {
		t.Errorf("processes %v", list)
	}
}

// TestOpening: a fork that was recorded while the rings of other CPUs were not open yet
// makes no process that is known exactly.
func TestOpening(t *testing.T) {
	a, c := fakeRing(0, 1<<14), fakeRing(1, 1<<14)
	b := fakeBand(a, c)
	now := uint64(b.Now())
	b.calls.opened = tracefs.Time(now - 50)
	const exec = unix.PERF_RECORD_MISC_COMM_EXEC
	a.write(rawTask(unix.PERF_RECORD_FORK, 20, 1, 20, 1, now-60, 0), // its exec was on the other CPU
		rawTask(unix.PERF_RECORD_FORK, 21, 1, 21, 1, now-59, 0), rawComm(21, 21, exec, "seen", now-50, 0))
	c.write(rawTask(unix.PERF_RECORD_EXIT, 20, 1, 20, 1, now-40, 1), rawTask(unix.PERF_RECORD_FORK, 22, 1, 22, 1, now-30, 1))
	if _, err := b.Drain(); err != nil {
		t.Fatal(err)
	}
	for pid, exact := range map[int]bool{20: false, 21: true, 22: true} {
		v := b.History.Spaces.Space(pid).Versions()
		if got := len(v) > 0 && v[0].Exact; got != exact {
			t.Errorf("process %d: %+v", pid, v)
		}
	}
}

// FuzzDrain: whatever is in a ring, the history does not contradict itself.
func FuzzDrain(f *testing.F) {
	f.Add(bytes.Join([][]byte{
		rawTask(unix.PERF_RECORD_FORK, 20, 1, 20, 1, 50, 0), rawComm(20, 20, unix.PERF_RECORD_MISC_COMM_EXEC, "second", 60, 1),
		rawMap(20, 20, 0x1000, 0x1000, 0, rx, 2, "//anon", 70), raw(unix.PERF_RECORD_LOST, 0, 71, 3, perftest.U64(1, 4)),
		rawTask(unix.PERF_RECORD_FORK, 20, 20, 21, 20, 72, 0), rawTask(unix.PERF_RECORD_EXIT, 20, 1, 20, 1, 80, 1),
	}, nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		const size = 1 << 14
		r := fakeRing(0, size)
		b := fakeBand(r)
		r.write(in[:min(len(in), size/2)])
		for range 2 {
			if _, err := b.Drain(); err != nil {
				t.Fatal(err)
			}
		}
		b.History.Spaces.Snapshot().Each(func(s *space.Space) bool {
			checkVersions(t, s)
			return true
		})
	})
}

package sideband

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// flying has a thread of a process call munmap of a page of code, as far as the Band is
// told: the call never has its effect.
type flying struct {
	*testing.T
	b       *Band
	pid     int
	at      uint64
	read    func() error
	library string
}

// noThread is of no thread, so that no other record is of it.
const noThread = 1 << 22

func (f *flying) sample(ago tracefs.Time) *perf.Record {
	return &perf.Record{Type: unix.PERF_RECORD_SAMPLE, PID: f.pid, TID: noThread, Time: f.b.Now() - ago, Raw: []byte{0, 0}}
}

func (f *flying) begin(ago tracefs.Time) {
	f.b.calls.begins(f.sample(ago), unmapping, f.at, page, page)
}

// know reads the process. The code is there then, or that is not known.
func (f *flying) know(what string, there bool) {
	f.Helper()
	if err := f.read(); err != nil {
		f.Fatal(err)
	}
	now := f.b.Now()
	p, ok := f.b.History.Lookup(f.pid, f.at, now)
	if ok != there || ok && (p.Late || p.Mapping.File.BuildID != buildID(f, f.library)) {
		f.Errorf("%s: it is in %+v, %v, want %v", what, p, ok, there)
	}
	if v := f.b.History.Spaces.Space(f.pid).At(now); !there && v.Knows(f.at) {
		f.Errorf("%s: it is known not to be there", what)
	}
}

// TestInFlight: while a call goes on that takes code away, it is not said that the code
// is there, although a reading finds it. Once the call cannot take it away, it is.
func TestInFlight(t *testing.T) {
	b, r := openBand(t, Options{})
	if len(b.Unseen()) > 0 {
		skip(t, "%v cannot be seen", b.Unseen())
	}
	library, pid := mappedLibrary(t), os.Getpid()
	at := uint64(twoPages(t, library))
	f := &flying{t, b, pid, at, func() error { return b.Read(r, pid, 0) }, library}
	f.know("before", true)
	f.begin(0)
	f.know("while the call goes on", false)
	f.b.record(f.sample(0))
	f.know("after the next call of the thread", true)
	b.calls.flights.lost = 0 // the rings are open for long
	f.begin(2 * unmapTakes)
	f.know("while it takes long", false)
	f.b.record(&perf.Record{Type: unix.PERF_RECORD_COMM, PID: pid, TID: noThread, Name: []byte("it"), Time: b.Now()})
	f.know("after another thread has named it", false)
	f.b.calls.failed(f.sample(0), unmapping)
	f.begin(0)
	f.mapAgain()
	f.know("after another thread has mapped it", false)
	b.record(&perf.Record{Type: unix.PERF_RECORD_EXIT, PID: pid, TID: noThread, Time: b.Now()})
	f.know("after the thread has ended", true)
	f.begin(2 * unmapTakes)
	f.lose()
	f.know("after a loss, if it began long ago", true)
}

// lose makes a loss of records, after which all processes were read.
func (f *flying) lose() {
	now := f.b.Now()
	f.b.softGap(0, 0, now, now)
	f.b.History.whole(now)
}

// mapAgain makes the page code again.
func (f *flying) mapAgain() {
	for _, prot := range []uintptr{unix.PROT_READ, unix.PROT_READ | unix.PROT_EXEC} {
		if _, _, e := unix.Syscall(unix.SYS_MPROTECT, uintptr(f.at), page, prot); e != 0 {
			f.Fatal(e)
		}
	}
	drain(f, f.b)
}

// TestInFlightFails: of a process of which nothing was known when the call began, that
// then fails.
func TestInFlightFails(t *testing.T) {
	library := mappedLibrary(t)
	h := startHelper(t, "map", library)
	pid := h.pid()
	b, r := openBand(t, Options{})
	if len(b.Unseen()) > 0 {
		skip(t, "%v cannot be seen", b.Unseen())
	}
	b.History.Spaces, b.History.Threads = space.New(), newThreads()
	f := &flying{t, b, pid, h.memory(t, "file").addr, func() error { return b.Read(r, pid, 0) }, library}
	f.begin(0)
	f.know("while the call goes on", false)
	b.calls.failed(f.sample(0), unmapping)
	b.record(f.sample(0))
	f.know("after it has failed", true)
}

// TestInFlightOfSharers: calls of processes that share the memory count, and no others.
func TestInFlightOfSharers(t *testing.T) {
	b, r := openBand(t, Options{})
	library, pid := mappedLibrary(t), os.Getpid()
	at := uint64(twoPages(t, library))
	const other = 1 << 22
	f := &flying{t, b, pid, at, func() error { return b.Read(r, pid, 0) }, library}
	call := &perf.Record{Type: unix.PERF_RECORD_SAMPLE, PID: other, TID: noThread, Time: b.Now()}
	b.calls.begins(call, unmapping, at, page, page)
	f.know("of another process", true)
	b.History.shared(pid, other, b.Now())
	f.know("of one that shares the memory", false)
	b.History.unshared(other, b.Now())
	f.know("of one that shares it no more", true)
	b.record(&perf.Record{Type: unix.PERF_RECORD_COMM, Misc: unix.PERF_RECORD_MISC_COMM_EXEC, PID: other, TID: other, Time: b.Now()})
	if n := len(b.calls.flights.of(other)); n > 0 {
		t.Errorf("%d calls of before an exec are remembered", n)
	}
}

// TestFlightsEarly: while the rings are opened, what is mapped is not taken from a record,
// but calls before have ended then.
func TestFlightsEarly(t *testing.T) {
	for name, tid := range map[string]int{"by the thread": 1, "by another": 2} {
		ring, soft := fakeRing(0, 1<<14), fakeRing(0, 1<<14)
		b := fakeBand(ring, soft)
		b.rings.tracepoints, soft.soft = fakeTracepoints(), true
		now := uint64(b.Now())
		b.calls.opened = tracefs.Time(now)
		b.calls.flights.lose(b.calls.opened)
		soft.write(rawSample(unmapping, 1, 1, now-20, page, page))
		drain(t, b)
		found := []procmap.Mapping{{Start: page, End: 2 * page}}
		if n := len(b.calls.flights.flying(b.History, 1, found, b.drained)); n != 1 {
			t.Fatalf("%s: %d calls", name, n)
		}
		ring.write(rawMap(1, tid, page, page, 0, rx, unix.MAP_PRIVATE, "/code", now-10))
		drain(t, b)
		if n := len(b.calls.flights.flying(b.History, 1, found, b.drained)); n != 0 {
			t.Errorf("%s: %d calls may go on", name, n)
		}
	}
}

// TestFlightsBounded: many calls that never end take no room without bound, and leave
// those of others.
func TestFlightsBounded(t *testing.T) {
	var f flights
	forgotten := 0
	begin := func(pid, tid int) {
		if f.begin(&perf.Record{PID: pid, TID: tid, Time: 1}, taken{page, 2 * page}, true) {
			forgotten++
		}
	}
	begin(1, 1)
	for i := range 10 * maxFlights {
		begin(2, i)
	}
	if len(f.of(1)) != 1 || len(f.of(2)) != maxFlights || forgotten != 9*maxFlights {
		t.Errorf("%d and %d calls, forgotten %d", len(f.of(1)), len(f.of(2)), forgotten)
	}
	for i := range 10 * maxFlying {
		begin(10+i, 1)
		if i%2 == 0 {
			f.returned(&perf.Record{Type: unix.PERF_RECORD_SAMPLE, PID: 10 + i, TID: 1, Time: 2})
		}
		begin(1, i)
	}
	if len(f.of(1)) != maxFlights || len(f.by) > maxFlying || len(f.older) > maxFlying {
		t.Errorf("%d calls of the process that calls often, %d and %d processes", len(f.of(1)), len(f.by), len(f.older))
	}
}

// TestFlightsEnd: of calls whose end may have gone unseen it is taken for a while that
// they go on, of others for ever.
func TestFlightsEnd(t *testing.T) {
	f := flights{lost: 10}
	for _, c := range []struct {
		call flight
		now  tracefs.Time
		want bool
	}{
		{flight{at: 11, sure: true}, 11 + 10*unmapTakes, true},
		{flight{at: 11}, 11 + unmapTakes, true},
		{flight{at: 11}, 12 + unmapTakes, false},
		{flight{at: 10, sure: true}, 10 + unmapTakes, true},
		{flight{at: 10, sure: true}, 11 + unmapTakes, false},
	} {
		if got := f.going(&c.call, c.now); got != c.want {
			t.Errorf("%+v at %d: %v", c.call, c.now, got)
		}
	}
}

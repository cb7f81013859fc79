package sideband

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestOtherRights: where a program that is executed gets other rights, the kernel reports an end
// of the process right after the exec. It is none, and the next one is; live, in the replay of
// what was saved, and in a perf.data. The process after it, which has the same PID, ends once.
func TestOtherRights(t *testing.T) {
	var saved bytes.Buffer
	b := fakeBand()
	b.History.log = &logWriter{w: &saved, buf: []byte(logHead + "mono\n")}
	rec := NewRecorded(space.New(), "mono")
	fork := perf.Record{Type: unix.PERF_RECORD_FORK, PID: 20, TID: 20, ParentPID: 1, ParentTID: 1}
	exit := perf.Record{Type: unix.PERF_RECORD_EXIT, PID: 20, TID: 20}
	exec := perf.Record{Type: unix.PERF_RECORD_COMM, Misc: unix.PERF_RECORD_MISC_COMM_EXEC, PID: 20, TID: 20, Name: []byte("sudo")}
	code := perf.Record{Type: unix.PERF_RECORD_MMAP2, PID: 20, TID: 20, Addr: 0x1000, Len: 0x1000, Prot: rx, Flags: unix.MAP_PRIVATE,
		Inode: 77, Name: []byte("/bin/sudo")}
	for i, r := range []perf.Record{fork, exec, exit, code, exit, fork, exec, fork, exit} {
		r.Time = b.calls.opened + 100 + 10*tracefs.Time(i)
		b.record(&r)
		rec.Add(&r)
	}
	if got := b.found.OtherRights; !slices.Equal(got, []int{20}) {
		t.Errorf("processes that got other rights: %v", got)
	}
	from := b.calls.opened + 100
	b.History.log.until(from + 100)
	if err := b.History.log.flush(); err != nil {
		t.Fatal(err)
	}
	replay, err := Load(space.New(), &saved)
	if err != nil {
		t.Fatal(err)
	}
	for what, h := range map[string]*History{"live": b.History, "replay": replay, "perf.data": rec.History} {
		p, ok := h.Lookup(20, 0x1800, from+35)
		if late := p.Late && what != "perf.data"; !ok || late || p.PID != 20 || p.Mapping.File.Name != "/bin/sudo" {
			t.Errorf("%s: %+v, %v", what, p, ok)
		}
		if _, ok := h.Lookup(20, 0x1800, from+45); ok {
			t.Errorf("%s: lives after its end", what)
		}
		if n := h.Threads.Live(20); n != 0 {
			t.Errorf("%s: %d threads of the last one have not ended", what, n)
		}
	}
}

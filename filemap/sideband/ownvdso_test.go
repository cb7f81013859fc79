package sideband

import (
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestOwnVDSO: a vDSO that a program maps itself (ARCH_MAP_VDSO_32) can have other
// functions at the offsets of the one of all programs, which exec maps.
func TestOwnVDSO(t *testing.T) {
	b, _ := openBand(t, Options{})
	b.rings.list[0].features.exec = true // as live has it: the records below say when a program is ready
	now := b.Now()
	record := func(after tracefs.Time, r perf.Record) {
		r.PID, r.TID, r.Time = noThread, noThread, now+after
		b.record(&r)
	}
	vdso := func(after tracefs.Time, at uint64) {
		record(after, perf.Record{Type: unix.PERF_RECORD_MMAP2, Addr: at, Len: 2 * page, Prot: unix.PROT_READ | unix.PROT_EXEC, Name: []byte("[vdso]")})
	}
	record(1, perf.Record{Type: unix.PERF_RECORD_COMM, Misc: unix.PERF_RECORD_MISC_COMM_EXEC, Name: []byte("program")})
	vdso(2, 0x7f0000000000)
	record(3, perf.Record{Type: unix.PERF_RECORD_SAMPLE})
	vdso(4, 0x7e0000000000)
	for at, want := range map[uint64]procmap.Kind{0x7f0000000000: procmap.VDSO, 0x7e0000000000: procmap.Special} {
		p, ok := b.History.Lookup(noThread, at, now+5)
		if !ok || p.Mapping.File.Kind != want {
			t.Errorf("%#x is in %+v, %v, want %v", at, p, ok, want)
		}
	}
}

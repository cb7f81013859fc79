package sideband

import "ustack/tracefs/perf"

// ownVDSO reports whether a program has mapped a vDSO itself (ARCH_MAP_VDSO_32 and its
// like, man 2 arch_prctl): it can be that of 32-bit programs, which has other functions
// at the same offsets. The one that exec maps is in place before the program runs.
func ownVDSO(b *Band, r *perf.Record) bool {
	sp := b.History.Spaces.Space(r.PID)
	return b.rings.reportsLoaded() && sp.At(r.Time) != nil && !sp.Loading(r.Time, r.Time+1)
}

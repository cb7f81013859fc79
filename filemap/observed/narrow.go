package observed

import (
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
)

// narrow reports whether a stack of raw addresses is that of a 32-bit program on a 64-bit
// kernel for x86, which walks it as one of 64-bit words: see timeline.narrow. The vDSO of
// other programs is above 4 GiB, and arm64 maps a page for signal handlers, too.
func (m *moment) narrow(s *resolve.Query) bool {
	if s.Deferred || s.Frames[0].Address(s.Text) >= notRandom || len(m.versions) == 0 {
		return false
	}
	maps := m.versions[0].maps
	if len(maps) == 0 || maps[len(maps)-1].end > notRandom {
		return false
	}
	vdso := false
	for i := range maps {
		at := &maps[i]
		if at.memory != nil && (at.memory.Name == "[sigpage]" || at.memory.Name == "[vectors]") {
			return false
		}
		vdso = vdso || at.kind == procmap.VDSO
	}
	return vdso
}

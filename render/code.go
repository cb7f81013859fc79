package render

import (
	"ustack/filemap"
	"ustack/filemap/symbol"
)

// CodeName returns the name of a frame that lies in memory without a file: the
// function, or why it has none; nil if it is no code. at is the frame's address,
// in the vDSO its offset there.
func CodeName(m *filemap.Memory, why filemap.Reason, at uint64) *symbol.Name {
	switch {
	case m == nil:
		return nil
	case m.Code != nil:
		n := &symbol.Name{Function: m.Code.Function, Offset: at - m.Code.Start, Source: symbol.PerfMap}
		if why == filemap.VDSO {
			n.Source = symbol.VDSO
		}
		return n
	case m.Exec && why == filemap.Anonymous:
		return &symbol.Name{Reason: symbol.JIT}
	}
	return nil
}

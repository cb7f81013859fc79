package stackset

import (
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// Name names the functions of all stacks that have no names yet.
func (s *Set) Name(names symbol.Namer) {
	for i := range s.list {
		frames := s.list[i].Frames
		for k := range frames {
			f := &frames[k]
			if f.Name != nil {
				continue
			}
			if f.File == nil {
				f.Name = symbol.OfMemory(f.Memory, f.Reason, f.Offset)
				continue
			}
			ran := k == 0 || f.How == tracefs.BySignal
			f.Name = names.Name(f.File, f.Offset, ran || f.Inferred)
			if k+1 < len(frames) && frames[k+1].File != nil && !f.Inferred && !frames[k+1].Inferred && frames[k+1].How == tracefs.ByKernel {
				f.Skipped = names.Skipped(symbol.Place{File: f.File, Offset: f.Offset, Ran: ran}, symbol.Place{File: frames[k+1].File, Offset: frames[k+1].Offset, Calls: frames[k+1].Calls})
			}
		}
	}
}

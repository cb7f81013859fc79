package stackset

import "fmt"

// Check returns what of the invariants does not hold, for tests.
func (s *Set) Check() error {
	var frames, kept int
	for i := range s.list {
		n := len(s.list[i].Frames)
		if n == 0 || n > MaxDepth {
			return fmt.Errorf("stack %d has %d frames", i, n)
		}
		frames += n
	}
	for _, ids := range s.byHash {
		kept += len(ids)
	}
	if frames != s.frames || frames > MaxFrames || len(s.list) > s.limit || kept != len(s.list) {
		return fmt.Errorf("%d stacks of %d, %d by hash; %d frames, %d are counted", len(s.list), s.limit, kept, frames, s.frames)
	}
	return nil
}

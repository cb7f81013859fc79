package timeline

import (
	"ustack/filemap/resolve"
	"ustack/filemap/space"
)

// narrow reports whether a stack of raw addresses is that of a 32-bit program on a 64-bit
// kernel for x86. The kernel walks it as one of 64-bit words (arch_stack_walk_user in
// arch/x86/kernel/stacktrace.c), so that all frames but the one that the thread was in are
// words that it has found beside the frames, such as arguments.
func narrow(sp *space.Space, s *resolve.Query) bool {
	return !s.Deferred && len(s.Frames) > 1 && s.Frames[0].Address(s.Text) < 1<<32 && sp.X86(s.Time)
}

package health

import (
	"fmt"

	"ustack/filemap/unwind/frames"
)

// Advice is what becomes of stacks that lead through a file, and what to do.
type Advice struct {
	// Follows: whole stacks go through the file. Kernel: the kernel's own
	// stacks do.
	Follows, Kernel bool
	// Stops is why they stop, "" if they do not; Do is what to do, "" if there
	// is nothing to.
	Stops, Do string
}

// enough reports whether a table is about so much code that it can be relied on.
// What the compiler's own start files add to each program has no information.
func (t *Table) enough() bool {
	const share, startFiles = 0.9, 256
	return t.Present && t.Functions > 0 && (t.Covered >= share || t.Missing <= startFiles)
}

// Advice says what becomes of stacks through the file.
func (p *Report) Advice() (a Advice) {
	a.Kernel = p.FramePointers == frames.Kept
	a.Follows = a.Kernel
	best := 0.0
	for _, t := range [...]*Table{&p.EHFrame, &p.DebugFrame, &p.SFrame, &p.GoTable, &p.Separate} {
		a.Follows = a.Follows || t.enough()
		best = max(best, t.Covered)
	}
	if p.GoTable.Present { // Go's code and C's in one file
		best = min(p.GoTable.Covered+p.EHFrame.Covered, 1)
		a.Follows = a.Follows || best >= 0.9
	}
	switch {
	case a.Follows && a.Kernel:
	case a.Follows:
		a.Stops = "the kernel's own stacks stop there: the code keeps no frame pointers"
		a.Do = "let ustack unwind by tables, or build the file with -fno-omit-frame-pointer"
	case best > 0:
		a.Stops = fmt.Sprintf("stacks can stop there: unwind tables cover %.0f %% of the code, and it keeps no frame pointers", 100*best)
		a.Do = "build the file with -fasynchronous-unwind-tables, or install its debug file"
	default:
		a.Stops = "stacks stop there: it has no unwind tables, and keeps no frame pointers"
		a.Do = "build the file with -fasynchronous-unwind-tables or -fno-omit-frame-pointer, or install its debug file"
	}
	return a
}

package hotspot

import (
	"errors"
	"time"

	"ustack/filemap/procmem"
	"ustack/tracefs"
)

// errBusy: so much was read of a process that it has to wait.
var errBusy = errors.New("too much to read of the virtual machine")

// budget bounds how much is read of a process, which can have its memory lead to as much as
// it likes. A reading is a unit, and so is each page.
type budget struct {
	mem    Memory
	now    func() tracefs.Time
	left   int
	used   int // in all
	filled tracefs.Time
}

// perSecond is how many units a second may have, of some 3 us each; maxUnits how many may be
// left over.
const perSecond, maxUnits = 40_000, 80_000

// Read implements Memory.
func (b *budget) Read(parts ...procmem.Part) error {
	const second = tracefs.Time(time.Second)
	now := b.now()
	if more := int(min(now-b.filled, second) * perSecond / second); more > 0 {
		b.left, b.filled = min(b.left+more, maxUnits), now
	}
	units := 1
	for i := range parts {
		units += len(parts[i].To) / pageSize
	}
	if b.left -= units; b.left < 0 {
		b.left = 0
		return errBusy
	}
	b.used += units
	return b.mem.Read(parts...)
}

// IsBusy reports whether an error is for too much that was read of a process: it goes on
// later.
func IsBusy(err error) bool { return errors.Is(err, errBusy) }

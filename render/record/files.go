package record

import (
	"ustack/tracefs"
)

// Bounds on the files of a report, which is far above what a machine runs: a crafted
// trace has no end of them. Frames in further files are unresolved, as forgotten.
const (
	// maxKnown and maxKnownBytes bound the files that are kept: what was announced
	// stays announced.
	maxKnown, maxKnownBytes = 1 << 16, 16 << 20
	// maxAnnounced bounds how many are announced.
	maxAnnounced = 1 << 18
	// maxAllBytes bounds the files that are announced at the end (Unannounced).
	maxAllBytes = 16 << 20
	// perFile is what one takes besides its path.
	perFile = 128
)

// files are the files of a report.
type files struct {
	known     map[marked]uint64
	bytes     int // of known
	announced map[uint64]bool
	marks     map[uint64]tracefs.Mark // with Flat: the weakest
	fresh     []marked                // of the stack at hand
	all       []marked                // that were announced, with Unannounced
	allBytes  int                     // of all
}

func newFiles() files {
	return files{known: make(map[marked]uint64), announced: make(map[uint64]bool), marks: make(map[uint64]tracefs.Mark)}
}

// size is what a file takes.
func (f marked) size() int { return perFile + len(f.file.Path) + len(f.file.Words) }

// forget forgets the files that were met, not that they were announced.
func (fs *files) forget() {
	clear(fs.known)
	fs.bytes = 0
}

// full reports whether no more files can be announced.
func (fs *files) full() bool { return len(fs.announced) >= maxAnnounced || fs.allBytes >= maxAllBytes }

// key returns the identifier of a file. It notes that the file has to be
// announced. ok is false if there are too many.
func (c *Compact) key(f marked) (key uint64, ok bool) {
	mark := f.mark
	if c.Flat {
		f.mark = tracefs.NoMark
	}
	key, ok = c.known[f]
	if !ok {
		if c.full() {
			return 0, false
		}
		if len(c.known) >= maxKnown || c.bytes >= maxKnownBytes {
			c.forget()
		}
		key = c.identifier(f)
		c.known[f] = key
		c.bytes += f.size()
	}
	if c.Flat {
		c.marks[key] = tracefs.Weaker(c.marks[key], mark)
	}
	if !c.announced[key] {
		c.announced[key] = true
		c.fresh = append(c.fresh, f)
		if c.Unannounced {
			c.allBytes += f.size()
		}
	}
	return key, true
}

// announceFiles announces the files that a stack is the first to need, with the stack's
// head.
func (c *Compact) announceFiles(head []byte) {
	if c.Unannounced {
		c.all = append(c.all, c.fresh...)
		return
	}
	for _, f := range c.fresh {
		c.announce(head, f)
	}
}

package unwind

import (
	"cmp"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/table"
)

// Binary is an ELF file that is open. It must have the bytes of the file that
// was mapped.
type Binary struct {
	io.ReaderAt
	Size int64
	// Identity is the open file's, by what the kernel says of it: device, inode,
	// size and time of change. It is equal for no two files of one time.
	Identity string
	// Close can be nil.
	Close func()
	// Check returns why what was read need not be of one file, nil if it is; it can be nil.
	Check func() error
}

// check is for after the tables were read.
func (b *Binary) check() error {
	if b.Check == nil {
		return nil
	}
	return b.Check()
}

func (b *Binary) close() {
	if b != nil && b.Close != nil {
		b.Close()
	}
}

// Source opens the data about one file. It is called when a stack leads through
// the file, and again if the tables had to make room.
type Source struct {
	// Key is equal for equal contents: a build ID, or device, inode, size and
	// time of change.
	Key string
	// Name is for people.
	Name string
	// Open opens the program or library.
	Open func() (*Binary, error)
	// Debug opens the separate file with its debug information. It is nil if
	// there is none, and not called while the file's own tables suffice.
	Debug func() (*Binary, error)
}

// File is a file that stacks lead through. Files of one Unwinder that have the
// same Key are the same pointer.
type File struct {
	Source

	u       *Unwinder
	number  uint64
	loaded  bool
	bin     *Binary
	debug   *Binary
	image   *image.Image
	tables  []*table.Table
	goTable *table.Go // nil if there is none
	sought  bool      // the debug file
	plain   bool      // frame pointers are to be used where no table is
	checked bool      // plain is known
	entry   uint64
	err     error
	steps   map[uint64]*step
	used    uint64 // when

	following following
}

// errNotOpen is the error of a source that has opened nothing.
var errNotOpen = errors.New("the file cannot be opened")

// File returns the file of a source: the first one with this Key. A Space may
// call it.
func (u *Unwinder) File(s Source) *File {
	u.filesMu.Lock()
	defer u.filesMu.Unlock()
	f := u.files[s.Key]
	if f == nil {
		f = &File{Source: s, u: u, number: uint64(len(u.files))}
		u.files[s.Key] = f
	}
	return f
}

// Known reports whether there is a file with this Key.
func (u *Unwinder) Known(key string) bool {
	u.filesMu.Lock()
	defer u.filesMu.Unlock()
	return u.files[key] != nil
}

// Memory is about how many bytes the tables of all files need.
func (u *Unwinder) Memory() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.memory()
}

func (u *Unwinder) memory() (n int) {
	n = maxPages*pageSize + 24<<hotBits
	u.filesMu.Lock()
	defer u.filesMu.Unlock()
	for _, f := range u.files {
		n += f.memory()
	}
	return n
}

// Close closes the files and forgets their tables.
func (u *Unwinder) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.filesMu.Lock()
	defer u.filesMu.Unlock()
	for _, f := range u.files {
		f.unload()
	}
}

// Rest closes the files that no stack has led through since the last call, and forgets
// them: an open file keeps its file system from being unmounted, and its space from being
// free once it is deleted; and once it is closed, its Key can be another file's. It
// reports whether there were any. They are not to be used any more: File returns new ones.
func (u *Unwinder) Rest() (forgotten bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.filesMu.Lock()
	defer u.filesMu.Unlock()
	for key, f := range u.files {
		if f.used <= u.rested {
			f.unload()
			delete(u.files, key)
			forgotten = true
		}
	}
	u.rested = u.tick
	return forgotten
}

// maxOpen bounds the files that are open at once, openShare is the part of all descriptors
// that they may take.
const maxOpen, openShare = 1 << 10, 8

// roomForFiles returns how many files may be open.
func roomForFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return maxOpen
	}
	return int(max(min(limit.Cur/openShare, maxOpen), 1))
}

// oldest returns the file with tables that was used before all others, but for
// keep.
func (u *Unwinder) oldest(keep *File) (oldest *File) {
	u.filesMu.Lock()
	defer u.filesMu.Unlock()
	for _, f := range u.files {
		if f.loaded && f != keep && (oldest == nil || f.used < oldest.used) {
			oldest = f
		}
	}
	return oldest
}

// trim makes room now and then, and for each new file: the most recently used files
// stay.
func (u *Unwinder) trim(keep *File, isNew bool) {
	const often = 512
	if u.cold++; u.cold < often && !isNew {
		return
	}
	u.cold = 0
	for n := u.memory(); n > u.limit || u.opened > u.most; {
		oldest := u.oldest(keep)
		if oldest == nil {
			if keep.loaded {
				keep.unload()
			}
			return
		}
		n -= oldest.memory()
		oldest.unload()
	}
}

func (f *File) memory() int {
	n := 512 + len(f.Key) + len(f.Name)
	for _, t := range f.tables {
		n += t.Memory()
	}
	if f.goTable != nil {
		n += f.goTable.Memory()
	}
	const step, arrival = 208, 96
	if f.following.starts != nil {
		n += f.following.starts.Memory()
	}
	return n + step*len(f.steps) + arrival*len(f.following.arrivals)
}

func (f *File) unload() {
	if f.loaded {
		f.u.opened--
	}
	f.bin.close()
	f.debug.close()
	for i := range f.u.hot {
		if f.u.hot[i].file == f {
			f.u.hot[i] = hot{}
		}
	}
	for i := range f.u.pages {
		if f.u.pages[i].file == f {
			f.u.pages[i].file = nil
		}
	}
	*f = File{Source: f.Source, u: f.u, number: f.number, used: f.used}
}

// load opens the file and its own tables.
func (f *File) load() {
	f.loaded = true
	f.u.opened++
	f.steps = make(map[uint64]*step)
	if f.bin, f.err = f.Open(); f.err != nil || f.bin == nil {
		f.bin, f.err = nil, cmp.Or(f.err, errNotOpen)
		return
	}
	if f.image, f.err = image.Open(f.bin, f.bin.Size); f.err != nil {
		return
	}
	f.entry = f.image.Entry()
	for _, form := range [...]table.Form{table.EHFrame, table.DebugFrame, table.SFrame} {
		f.add(f.image, form)
	}
	if f.image.IsGo() {
		if g, err := table.OpenGo(f.image); err == nil {
			f.goTable = g
		}
	}
	if err := f.bin.check(); err != nil {
		f.image, f.tables, f.goTable, f.err = nil, nil, nil, err
	}
}

// add adds a table, if there is one.
func (f *File) add(x *image.Image, form table.Form) {
	t, err := table.Open(x, f.image, form)
	if err == nil {
		f.tables = append(f.tables, t)
	} else if f.err == nil && err != table.ErrNone {
		f.err = err
	}
}

// seek adds the tables of the separate debug file, once.
func (f *File) seek() (more bool) {
	if f.sought || f.Debug == nil {
		return false
	}
	f.sought = true
	b, err := f.Debug()
	if err != nil || b == nil {
		return false
	}
	f.debug = b
	x, err := image.Open(b, b.Size)
	if err != nil || x.Machine != f.image.Machine {
		return false
	}
	n := len(f.tables)
	f.add(x, table.DebugFrame)
	if err := b.check(); err != nil {
		f.tables, f.err = f.tables[:n], cmp.Or(f.err, err)
	}
	return len(f.tables) > n
}

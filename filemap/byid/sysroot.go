package byid

import (
	"io/fs"
	"os"
	"syscall"

	"ustack/filemap"
	"ustack/filemap/elfid"
)

// Bounds on a sysroot.
const (
	maxFiles = 1 << 20 // that are looked at
	maxBelow = 1 << 18 // that have a build ID
	maxSame  = 8       // with the same one
)

// inSysroot looks at all files of the sysroot, once.
func (f *Finder) inSysroot(id filemap.BuildID) (in found) {
	root, err := os.OpenRoot(f.opt.Sysroot)
	if err != nil {
		return in // opening the trace has reported it
	}
	defer root.Close()
	if f.below == nil {
		f.index(root)
	}
	owner := uint32(os.Geteuid())
	if info, err := root.Stat("."); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			owner = st.Uid
		}
	}
	for _, name := range f.below[id] {
		file, err := f.files.In(root, name)
		if err != nil {
			continue
		}
		good, sure := matches(file, id), writtenBy(file, 0, uint32(os.Geteuid()), owner)
		_ = file.Close()
		switch {
		case good && sure:
			return found{"/" + name, filemap.Late}
		case good && in.trust == filemap.NoTrust:
			in = found{"/" + name, filemap.Claimed}
		}
	}
	return in
}

// index reads the build IDs of the files below a directory, in order of their names. Links are
// not followed. What cannot be read is left out.
func (f *Finder) index(root *os.Root) {
	f.below = make(map[filemap.BuildID][]string)
	looked := 0
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case looked == maxFiles || len(f.below) == maxBelow:
			return fs.SkipAll
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir
		case err != nil:
			return nil
		case d.IsDir() && (name == "proc" || name == "sys"): // of the kernel
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		looked++
		file, err := f.files.In(root, name)
		if err != nil {
			return nil
		}
		defer file.Close()
		found, err := elfid.Read(file)
		if err != nil || found.IsZero() {
			return nil
		}
		id := filemap.BuildID(found.Padded())
		if len(f.below[id]) < maxSame {
			f.below[id] = append(f.below[id], name)
		}
		return nil
	})
}

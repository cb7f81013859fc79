// Package byid finds the files of this machine by their build IDs, for stacks that have
// nothing else: those of BPF.
package byid

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/symbol"
	"ustack/filemap/symbol/image"
)

// Options say where files are looked for.
type Options struct {
	// Sysroot is a directory with the files of the traced machine at their paths, "" for
	// none. Nothing outside of it counts as one of them.
	Sysroot string
	// DebugDirs are directories with files by build ID, DIR/.build-id/xx/yyyy or DIR/xx/yyyy.
	DebugDirs []string
	// Home is the user's home directory, for perf's cache in .debug; "" for none.
	Home string
	// Fetch gets a file by its build ID in hexadecimal from somewhere else and returns its
	// path; nil for nothing of the kind. what is "executable".
	Fetch func(id, what string) (path string, err error)
}

// Finder finds files. A path is where a file with the build ID is, or was mapped by a process,
// now: the same contents can have been at another path when the stack was taken. It opens
// nothing before it is asked for the first file, and is not for several goroutines at once.
type Finder struct {
	opt    Options
	files  *openfile.Opener
	known  map[filemap.BuildID]found
	below  map[filemap.BuildID][]string
	mapped map[filemap.BuildID][]string
}

// found is where a file is, and whether it is; NoTrust for nowhere.
type found struct {
	path  string
	trust filemap.Trust
}

// New returns a Finder.
func New(opt Options) *Finder {
	return &Finder{opt: opt, known: make(map[filemap.BuildID]found)}
}

// Close ends the use of the Finder.
func (f *Finder) Close() {
	if f.files != nil {
		f.files.Close()
		f.files = nil
	}
}

// maxKnown bounds the build IDs that are remembered: a hostile map has no end of them.
const maxKnown = 1 << 16

// Find returns the path of a file with a build ID. It looks at the files of the sysroot, at
// what processes have mapped, in directories of files by build ID, and elsewhere (Fetch).
//
// Anybody can write a build ID into a file, and map it or leave it below the sysroot. So files
// that are not of root, ours or of the owner of the sysroot are only claimed to be the one
// (filemap.Claimed), and come last. Else the trust is filemap.Late, and filemap.NoTrust if there
// is no file.
func (f *Finder) Find(id filemap.BuildID) (path string, trust filemap.Trust) {
	file, known := f.known[id]
	if !known {
		if f.files == nil {
			f.files = openfile.NewOpener(0)
		}
		file = f.look(id)
		if len(f.known) < maxKnown {
			f.known[id] = file
		}
	}
	return file.path, file.trust
}

func (f *Finder) look(id filemap.BuildID) found {
	var claim found
	if f.opt.Sysroot != "" {
		if claim = f.inSysroot(id); claim.trust == filemap.Late {
			return claim
		}
	}
	if f.mapped == nil {
		f.mapped = mapped()
	}
	hex := symbol.ShortHex(id)
	for _, in := range []func(filemap.BuildID, string) string{f.inProcesses, f.inDirectories, f.inCache, f.elsewhere} {
		if path := in(id, hex); path != "" {
			return found{path, filemap.Late}
		}
	}
	if list := f.mapped[id]; len(list) > 0 && claim.trust == filemap.NoTrust {
		claim = found{list[0], filemap.Claimed}
	}
	return claim
}

// inProcesses looks at what processes have mapped: files of root and of ours.
func (f *Finder) inProcesses(id filemap.BuildID, _ string) string {
	for _, path := range f.mapped[id] {
		if file, err := f.files.Path(path); err == nil {
			good := writtenBy(file, 0, uint32(os.Geteuid())) && matches(file, id)
			_ = file.Close()
			if good {
				return path
			}
		}
	}
	return ""
}

// writtenBy reports whether a file is of one of some users, and not for all to write.
func writtenBy(file *openfile.File, users ...uint32) bool {
	st, ok := file.Info().Sys().(*syscall.Stat_t)
	const allWrite = 0o002
	return ok && slices.Contains(users, st.Uid) && st.Mode&allWrite == 0
}

// elsewhere gets the file.
func (f *Finder) elsewhere(id filemap.BuildID, hex string) string {
	if f.opt.Fetch == nil {
		return ""
	}
	path, err := f.opt.Fetch(hex, "executable")
	if err != nil || !f.is(path, id) {
		return ""
	}
	return path
}

// system are the directories where distributions have files by build ID: links to programs
// and libraries, or files with debug information, which are not used.
var system = [...]string{"/usr/lib/debug/.build-id", "/usr/lib/.build-id"}

// inDirectories looks where files are kept by build ID.
func (f *Finder) inDirectories(id filemap.BuildID, hex string) string {
	two := hex[:2] + "/" + hex[2:]
	var names []string
	for _, dir := range f.opt.DebugDirs {
		names = append(names, filepath.Join(dir, ".build-id", two), filepath.Join(dir, two))
	}
	for _, dir := range system {
		names = append(names, filepath.Join(dir, two))
	}
	for _, name := range names {
		if !f.is(name, id) {
			continue
		}
		if to, err := filepath.EvalSymlinks(name); err == nil {
			name = to
		}
		if path, err := filepath.Abs(name); err == nil {
			return path
		}
	}
	return ""
}

// inCache looks in perf's cache of files: .debug/.build-id/xx/yyyy is a link to the directory
// ../../PATH/HEX with the file as "elf" (tools/perf/util/build-id.c).
func (f *Finder) inCache(id filemap.BuildID, hex string) string {
	if f.opt.Home == "" {
		return ""
	}
	link := filepath.Join(f.opt.Home, ".debug", ".build-id", hex[:2], hex[2:])
	to, err := os.Readlink(link)
	if err != nil {
		return ""
	}
	path, ok := strings.CutPrefix(filepath.Dir(to), "../..")
	if !ok || len(path) < 2 || strings.HasPrefix(path, "/[") || path != filepath.Clean(path) || !f.is(link+"/elf", id) {
		return ""
	}
	return path
}

// is reports whether a file that the user or the system has named is a program or library
// with a build ID.
func (f *Finder) is(name string, id filemap.BuildID) bool {
	file, err := f.files.Path(name)
	if err != nil {
		return false
	}
	defer file.Close()
	return matches(file, id)
}

// matches reports whether a file has a build ID, and code: one with debug information only
// has the ID of another one.
func matches(file *openfile.File, id filemap.BuildID) bool {
	found, err := elfid.Read(file)
	if err != nil || found.IsZero() || filemap.BuildID(found.Padded()) != id {
		return false
	}
	x, err := image.Open(file, file.Size())
	return err == nil && !x.LacksCode()
}

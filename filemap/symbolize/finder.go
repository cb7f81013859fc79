package symbolize

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/symbol"
	"ustack/filemap/symbol/image"
)

// object is an ELF file on this machine that was found good for a file of the
// trace.
type object struct {
	in    lookupRoot
	name  string // below the root
	path  string // as people call it
	file  *openfile.File
	image *image.Image
	id    elfid.ID
	// readID is by what id was read, nil if it was not.
	readID func(io.ReaderAt) (elfid.ID, error)
}

func (o *object) close() {
	if o != nil {
		_ = o.file.Close()
	}
}

// written reports whether the file was written since it was opened. Where its times may not show
// it, its build ID does, and its server has to have that one, too.
func (o *object) written() bool {
	switch {
	case o == nil:
		return false
	case o.file.Written():
		return true
	case o.readID == nil || !o.file.Unsure() && !o.file.Unseen():
		return false
	}
	id, err := o.file.IDBy(o.readID)
	return errors.Is(err, openfile.ErrWritten) || errors.Is(err, openfile.ErrServed) || err == nil && id != o.id
}

// lookupRoot is where files are looked for: a directory, or everything. Nothing
// outside of a directory is opened.
type lookupRoot struct {
	name string
	root *os.Root // nil for everything
	// traced: names in it come from the trace, not from the user.
	traced bool
	files  *openfile.Opener
}

// open opens a regular file. Other things at a path that a trace names, such
// as a device, are not touched.
func (f lookupRoot) open(name string) (*openfile.File, error) {
	switch {
	case f.root != nil:
		return f.files.In(f.root, name)
	case f.traced:
		return f.files.Named(name)
	}
	return f.files.Path(name)
}

// path returns the name of a file below the root, for users.
func (f lookupRoot) path(name string) string {
	if f.root == nil {
		return name
	}
	return filepath.Join(f.name, name)
}

// finder looks for files.
type finder struct {
	system  lookupRoot //  where the paths of the trace are
	sysroot bool       // that the user has named
	local   lookupRoot // this machine
	debug   []string   // --debug-dir
	cache   string     // perf's ~/.debug, "" if there is none
	fetch   func(id, what string) (string, error)
	loading func(path string) (done func()) // see Options
	since   *openfile.Begin                 // see Options
	summed  int64                           // bytes that were read for checksums
}

// searchError is the error of a search that found nothing, with the reason.
type searchError struct {
	reason symbol.Reason
	found  elfid.ID // of a file that is another one
}

// binary finds the file of a trace.
func (f *finder) binary(want *filemap.File, tries *[]symbol.Try) (*object, searchError) {
	failure := searchError{reason: symbol.NoFile}
	if want.Path == "" || want.Path[0] != '/' {
		*tries = append(*tries, symbol.Try{Path: want.Path, Result: "memory, not a file"})
		return nil, failure
	}
	worse := func(e searchError) {
		if e.reason > failure.reason && failure.reason == symbol.NoFile || e.reason == symbol.IDMismatch {
			failure = e
		}
	}
	for _, name := range spellings(want.Path) {
		o, e := f.candidate(f.system, name, want, f.sysroot && !tookPlace(want.Path, name), tries)
		if o != nil {
			return o, e
		}
		worse(e)
	}
	for _, c := range f.byID(symbol.ShortHex(want.BuildID), "", "/elf") {
		o, e := f.candidate(f.local, c, want, false, tries)
		if o != nil {
			return o, e
		}
		worse(e)
	}
	if name := f.fetched(symbol.ShortHex(want.BuildID), "executable", tries); name != "" {
		o, e := f.candidate(f.local, name, want, false, tries)
		if o != nil {
			return o, e
		}
		worse(e)
	}
	return nil, failure
}

// fetched gets a file from somewhere else, "" if there is none.
func (f *finder) fetched(id, what string, tries *[]symbol.Try) string {
	if f.fetch == nil || id == "" {
		return ""
	}
	name, err := f.fetch(id, what)
	if err != nil {
		*tries = append(*tries, symbol.Try{Path: "debuginfod, " + what + " of " + id, Result: err.Error()})
		return ""
	}
	return name
}

// spellings returns the paths that a path in a trace can mean: a deleted file
// may be there again, and a line feed is written as \012 in text.
func spellings(path string) []string {
	list := []string{path}
	if name, ok := strings.CutSuffix(path, deleted); ok {
		list = append(list, name)
	}
	if name := strings.ReplaceAll(path, `\012`, "\n"); name != path {
		list = append(list, name)
	}
	return list
}

// deleted is what the kernel writes after the path of a file that is not there any more
// (d_path in fs/d_path.c).
const deleted = " (deleted)"

// tookPlace reports whether a file that has a name now has taken the place of the one in the
// trace, which had been deleted: only a build ID can show that they are the same.
func tookPlace(path, name string) bool {
	return strings.HasSuffix(path, deleted) && !strings.HasSuffix(name, deleted)
}

// byID returns where files are kept by build ID: perf's cache, and the directories
// that the user has named. debug and cached are the ends of the names there.
func (f *finder) byID(hex, debug, cached string) []string {
	if hex == "" {
		return nil
	}
	var list []string
	two := hex[:2] + "/" + hex[2:]
	for _, dir := range f.debug {
		list = append(list, filepath.Join(dir, ".build-id", two+debug), filepath.Join(dir, two+debug))
	}
	if f.cache != "" {
		list = append(list, filepath.Join(f.cache, ".build-id", two+cached))
	}
	return list
}

// candidate opens a file and checks that it is the right one.
func (f *finder) candidate(in lookupRoot, name string, want *filemap.File, vouched bool, tries *[]symbol.Try) (*object, searchError) {
	o, err := openObject(in, name)
	note := func(format string, args ...any) {
		*tries = append(*tries, symbol.Try{Path: in.path(name), Result: fmt.Sprintf(format, args...)})
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		note("no such file")
		return nil, searchError{reason: symbol.NoFile}
	case err != nil:
		note("%v", err)
		return nil, searchError{reason: symbol.Unreadable}
	}
	found := searchError{found: o.id}
	switch {
	case o.image.LacksCode():
		note("debug information only: the code is not in it")
		found = searchError{reason: symbol.NoFile}
	case !want.BuildID.IsZero() && filemap.BuildID(o.id.Padded()) != want.BuildID:
		note("another file: its build ID is %s, not %s", orNone(o.id.Hex()), want.BuildID.Hex())
		found.reason = symbol.IDMismatch
	case !want.BuildID.IsZero():
		if err := f.checkOwner(o, want); err != nil {
			note("%v", err)
			if found.reason = symbol.Unreadable; errors.Is(err, openfile.ErrReplaceable) {
				found.reason = symbol.Replaceable
			}
			break
		}
		note("found, same build ID")
		return o, searchError{}
	case want.HasID && o.hasLoadedID():
		note("another file: its build ID is %s, and the file in the trace has none", o.id.Hex())
		found.reason = symbol.IDMismatch
	case vouched:
		note("found, without a build ID in the trace: taken because of --sysroot")
		return o, searchError{}
	case tookPlace(want.Path, name):
		note("not used: the file in the trace had been deleted, and has no build ID to check this one by")
		found.reason = symbol.Unverified
	default:
		note("not used: the trace has no build ID to check it by; --sysroot vouches for a directory")
		found.reason = symbol.Unverified
	}
	o.close()
	return nil, found
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// hasLoadedID reports whether the file has a build ID where the kernel looks.
func (o *object) hasLoadedID() bool {
	id, err := elfid.ReadSegments(o.file)
	return err == nil && !id.IsZero()
}

// openObject opens a program, a library, or a separate file of one.
func openObject(in lookupRoot, name string) (*object, error) {
	return openWith(in, name, (*object).read)
}

// openAlternative opens a file made by dwz.
func openAlternative(in lookupRoot, name string) (*object, error) {
	return openWith(in, name, (*object).readAlternative)
}

func openWith(in lookupRoot, name string, read func(*object) error) (*object, error) {
	file, err := in.open(name)
	if err != nil {
		return nil, err
	}
	o := &object{in: in, name: name, path: in.path(name), file: file}
	if err := read(o); err != nil {
		_ = file.Close()
		return nil, err
	}
	return o, nil
}

func (o *object) readAlternative() error {
	size := o.file.Size()
	o.readID = func(r io.ReaderAt) (elfid.ID, error) {
		x, err := image.OpenAny(r, size)
		if err != nil {
			return elfid.ID{}, err
		}
		id, _ := elfid.New(x.NoteID())
		return id, nil
	}
	return o.readBy(image.OpenAny)
}

func (o *object) read() error {
	o.readID = elfid.Read
	return o.readBy(image.Open)
}

func (o *object) readBy(open func(io.ReaderAt, int64) (*image.Image, error)) (err error) {
	if o.id, err = o.file.IDBy(o.readID); err != nil {
		return err
	}
	o.image, err = open(o.file, o.file.Size())
	return err
}

const debugRoot = "/usr/lib/debug"

// companion finds the separate file with debug information of a binary, nil if
// there is none. It has the same build ID, or the checksum that the binary has.
func (f *finder) companion(bin *object, name string, tries *[]symbol.Try) *object {
	if o := f.companionHere(bin, name, tries); o != nil {
		return o
	}
	if name := f.fetched(bin.id.Hex(), "debuginfo", tries); name != "" {
		return f.debugByID(f.local, name, bin, tries)
	}
	return nil
}

// companionHere looks for it on this machine.
func (f *finder) companionHere(bin *object, name string, tries *[]symbol.Try) *object {
	if !bin.id.IsZero() {
		hex := bin.id.Hex()
		two := "/.build-id/" + hex[:2] + "/" + hex[2:] + ".debug"
		if f.sysroot {
			if o := f.debugByID(f.system, debugRoot+two, bin, tries); o != nil {
				return o
			}
		}
		for _, c := range append([]string{debugRoot + two}, f.byID(hex, ".debug", "/debug")...) {
			if o := f.debugByID(f.local, c, bin, tries); o != nil {
				return o
			}
		}
	}
	link, crc := bin.image.DebugLink()
	if link == "" {
		return nil
	}
	dir := filepath.Dir(name)
	for _, c := range []string{dir + "/" + link, dir + "/.debug/" + link, debugRoot + dir + "/" + link} {
		if o := f.debugByLink(f.system, c, bin, crc, tries); o != nil {
			return o
		}
	}
	for _, d := range f.debug {
		for _, c := range []string{filepath.Join(d, dir, link), filepath.Join(d, link)} {
			if o := f.debugByLink(f.local, c, bin, crc, tries); o != nil {
				return o
			}
		}
	}
	return nil
}

func (f *finder) debugByID(in lookupRoot, name string, bin *object, tries *[]symbol.Try) *object {
	o := f.debugFile(in, name, bin.id, openObject, tries)
	if o != nil && !bin.image.SameCode(o.image) {
		(*tries)[len(*tries)-1].Result = moved
		o.close()
		return nil
	}
	return o
}

// debugFile opens a file with debug information that has to have a build ID.
func (f *finder) debugFile(in lookupRoot, name string, id elfid.ID, open func(lookupRoot, string) (*object, error), tries *[]symbol.Try) *object {
	o, err := open(in, name)
	result := "found, same build ID"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		result = "no such file"
	case err != nil:
		result = err.Error()
	case o.id != id:
		result = fmt.Sprintf("another file: its build ID is %s", orNone(o.id.Hex()))
		o.close()
		o = nil
	}
	*tries = append(*tries, symbol.Try{Path: in.path(name), Result: result})
	return o
}

func (f *finder) debugByLink(in lookupRoot, name string, bin *object, crc uint32, tries *[]symbol.Try) *object {
	o, err := openObject(in, name)
	result, found := "found, the checksum is that of .gnu_debuglink", false
	switch {
	case errors.Is(err, fs.ErrNotExist):
		result = "no such file"
	case err != nil:
		result = err.Error()
	case !bin.id.IsZero() && !o.id.IsZero() && bin.id != o.id:
		result = fmt.Sprintf("another file: its build ID is %s", o.id.Hex())
	case !bin.mayName(o):
		result = planted
	default:
		if err = f.linked(o.file, crc); err == nil && !bin.image.SameCode(o.image) {
			err = errors.New(moved)
		}
		if err != nil {
			result = err.Error()
		}
		found = err == nil
	}
	*tries = append(*tries, symbol.Try{Path: in.path(name), Result: result})
	if !found {
		o.close()
		return nil
	}
	return o
}

// alternative finds the file of .gnu_debugaltlink: at its path, which may be
// relative to the file that has the link, or by its build ID.
func (f *finder) alternative(from *object, path string, id []byte, tries *[]symbol.Try) *object {
	want, ok := elfid.New(id)
	if !ok {
		return nil
	}
	in := from.in
	switch {
	case path[0] != '/':
		path = filepath.Join(filepath.Dir(from.name), path)
	case f.sysroot:
		in = f.system
	}
	if o := f.debugFile(in, path, want, openAlternative, tries); o != nil {
		if from.mayName(o) {
			return o
		}
		(*tries)[len(*tries)-1].Result = planted
		o.close()
	}
	hex := want.Hex()
	list := []string{debugRoot + "/.build-id/" + hex[:2] + "/" + hex[2:] + ".debug"}
	for _, c := range append(list, f.byID(hex, ".debug", "/debug")...) {
		if o := f.debugFile(f.local, c, want, openAlternative, tries); o != nil {
			return o
		}
	}
	return nil
}

package sideband

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	filewatch "ustack/filemap/watch"
	"ustack/tracefs"
)

// writing is a way to change a file that has been made, opened for that before it is
// mapped as code. loses is set if the file is another one then, of others if the file is not
// root's: any change of its status may be a write that was hidden.
type writing struct {
	make   func(library, path string) (*os.File, error)
	write  func(f *os.File, path string) error
	loses  bool
	others bool
}

// writings are ways that inotify does not report of the file's path, or that change
// nothing of its content.
var writings = map[string]writing{
	"AIO":            {make: newFile, write: writeAIO, loses: true},
	"unnamed":        {make: unnamedFile, write: writeCode, loses: true},
	"other name":     {make: linkedFile, write: writeCode, loses: true},
	"removed name":   {make: renamedFile, write: writeCode, loses: true},
	"deleted":        {make: newFile, write: func(f *os.File, path string) error { return errors.Join(os.Remove(path), writeCode(f, path)) }, loses: true},
	"shared mapping": {make: newFile, write: writeShared, loses: true},
	"set-back time":  {make: newFile, write: writeID, loses: true},
	"new mode":       {make: newFile, write: func(_ *os.File, path string) error { return os.Chmod(path, 0o700) }},
	"new name":       {make: newFile, write: func(_ *os.File, path string) error { return os.Link(path, path+".link") }},
	"moved":          {make: newFile, write: func(_ *os.File, path string) error { return os.Rename(path, path+".moved") }},
	"undone":         {make: linkedFile, write: undo(writeID), others: true},
	"undone, gone":   {make: newFile, write: undo(func(f *os.File, path string) error { return errors.Join(writeID(f, path), os.Remove(path)) }), others: true},
	"others' mode":   {make: newFile, write: func(f *os.File, _ string) error { return f.Chmod(0o700) }, others: true},
}

// TestWrittenUnreported: a file that is mapped loses its build ID when it is written,
// in whichever way, and keeps it when it is not. A replay of the log says the same.
func TestWrittenUnreported(t *testing.T) {
	for name, w := range writings {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			written := new(Written)
			ids := procmap.NewIDs(nil)
			watcher := filewatch.New(filewatch.Options{Forget: func(id procmap.FileID) { written.Changed(id); ids.Forget(id) }})
			ids.SetGuard(watcher)
			defer func() {
				if err := watcher.Close(); err != nil {
					t.Error(err)
				}
			}()
			b, _ := openBand(t, Options{Watcher: watcher, Written: written, Log: &log, Forget: ids.Forget})
			b.completer.calls = bounded.New(time.Minute) // see watchingBand
			reader, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}, IDs: ids, Stat: true, Source: procmap.Text})
			if err != nil {
				t.Fatal(err)
			}
			if !b.BuildIDs() {
				skip(t, "the kernel does not report build IDs")
			}
			library, path := mappedLibrary(t), filepath.Join(t.TempDir(), "library")
			f, err := w.make(library, path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			loses := w.loses || w.others || os.Getuid() != 0
			if w.others {
				giveAway(t, path)
			}
			pass(b, 3*coarse) // so that it was not written after it was mapped
			addr := keptCode(t, path)
			if err := b.Read(reader, os.Getpid(), 0); err != nil { // which remembers the ID
				t.Fatal(err)
			}
			before := b.Now() // the Drain finds that it was not written by then
			drain(t, b)
			pass(b, 3*coarse)
			if err := w.write(f, path); errors.Is(err, unix.ENOSYS) {
				t.Skip("the kernel does not have this: ", err)
			} else if err != nil {
				t.Fatal(err)
			}
			after := b.Now()
			drain(t, b)
			replay, err := Load(space.New(), &log)
			if err != nil {
				t.Fatal(err)
			}
			for what, h := range map[string]*History{"live": b.History, "replay": replay} {
				if p, ok := h.Lookup(os.Getpid(), addr, before); !ok || p.Late || p.Mapping.File.BuildID != buildID(t, library) {
					t.Errorf("%s: before, it is in %+v, %v", what, p.Mapping, ok)
				}
				p, ok := h.Lookup(os.Getpid(), addr, after)
				if !ok || p.Mapping.File.Name != path || p.Mapping.File.BuildID.IsZero() != loses {
					t.Errorf("%s: after, it is in %+v, %v", what, p.Mapping, ok)
				}
			}
			// The process is read again: the ID that is remembered is not that of
			// the file any more.
			if err := b.Read(reader, os.Getpid(), 0); err != nil {
				t.Fatal(err)
			}
			now, err := elfid.Read(f)
			if err != nil {
				t.Fatal(err)
			}
			if p, ok := b.History.Lookup(os.Getpid(), addr, b.Now()); ok && !p.Mapping.File.BuildID.IsZero() && p.Mapping.File.BuildID != now {
				t.Errorf("read again, it is %v, and the file %v", p.Mapping.File.BuildID, now)
			}
		})
	}
}

// TestWrittenInNoise: so does a file in a directory in which so much is written that
// it is not watched any more.
func TestWrittenInNoise(t *testing.T) {
	b := watchingBand(t)
	path := filepath.Join(t.TempDir(), "library")
	f, err := newFile(mappedLibrary(t), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pass(b, 3*coarse)
	addr := keptCode(t, path)
	drain(t, b)
	var logs [2]*os.File // the kernel makes one event of several of one file
	for i := range logs {
		if logs[i], err = os.Create(fmt.Sprintf("%s.log%d", path, i)); err != nil {
			t.Fatal(err)
		}
		defer logs[i].Close()
	}
	const rounds, each = 40, 1000
	for range rounds {
		for i := range each {
			if _, err := logs[i%len(logs)].WriteAt([]byte("x"), 0); err != nil {
				t.Fatal(err)
			}
		}
		drain(t, b)
	}
	if b.opt.Watcher.(*filewatch.Watcher).Stats().Refused[filewatch.Noisy] == 0 {
		t.Fatal("the directory is watched still")
	}
	if !idAt(t, b, addr, b.Now()) {
		t.Error("in the noise: the file has no build ID")
	}
	if err := writeCode(f, path); err != nil {
		t.Fatal(err)
	}
	after := b.Now()
	drain(t, b)
	if idAt(t, b, addr, after) {
		t.Error("once it was written: the file has a build ID")
	}
}

// TestLetGo: a file that no process has mapped any more is not held.
func TestLetGo(t *testing.T) {
	written := new(Written)
	watcher := filewatch.New(filewatch.Options{Forget: written.Changed})
	defer watcher.Close()
	b, _ := openBand(t, Options{Watcher: watcher, Written: written})
	if !b.BuildIDs() {
		skip(t, "the kernel does not report build IDs")
	}
	path := filepath.Join(t.TempDir(), "library")
	copyFile(t, mappedLibrary(t), path)
	pass(b, 3*coarse)
	mem := mapPage(t, path)
	held := func() (n int) {
		for as := range b.files.stamps.by {
			if as.name == path {
				n++
			}
		}
		return n
	}
	if drain(t, b); held() != 1 {
		t.Fatalf("%d files are held", held())
	}
	if err := unix.Munmap(mem); err != nil {
		t.Fatal(err)
	}
	if len(b.Unseen()) > 0 {
		skip(t, "munmap is not seen: %v", b.Unseen())
	}
	b.files.stamps.sweep = time.Time{}
	drain(t, b)
	if n := held(); n != 0 {
		t.Errorf("%d files are held", n)
	}
}

// pass lets time pass: that of file systems is coarse.
func pass(b *Band, d time.Duration) {
	for w := b.Now(); b.Now() < w+tracefs.Time(d); {
		runtime.Gosched()
	}
}

func mapPage(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// keptCode maps a page of a file as code, until the end of the test.
func keptCode(t *testing.T, path string) uint64 {
	t.Helper()
	addr, unmap := mapCode(t, path)
	t.Cleanup(unmap)
	return addr
}

// fill writes the library to a file.
func fill(f *os.File, library string) error {
	data, err := os.ReadFile(library)
	if err == nil {
		_, err = f.Write(data)
	}
	return err
}

func newFile(library, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return nil, err
	}
	return f, fill(f, library)
}

// unnamedFile makes a file without a name that gets one later.
func unnamedFile(library, path string) (*os.File, error) {
	fd, err := unix.Open(filepath.Dir(path), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o755)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	err = fill(f, library)
	return f, errors.Join(err, unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW))
}

// linkedFile makes a file with another name, under which it is open.
func linkedFile(library, path string) (*os.File, error) {
	f, err := newFile(library, path+".other")
	if err != nil {
		return nil, err
	}
	return f, os.Link(f.Name(), path)
}

// renamedFile is linkedFile whose other name is gone.
func renamedFile(library, path string) (*os.File, error) {
	f, err := linkedFile(library, path)
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func writeCode(f *os.File, _ string) error {
	_, err := f.WriteAt(make([]byte, 64), page)
	return err
}

// writeID changes the build ID, and sets the time of the write back.
func writeID(f *os.File, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	_, err := f.WriteAt(make([]byte, page-64), 64) // the headers of the program and the notes
	times := []unix.Timespec{st.Atim, st.Mtim}
	return errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, path, times, 0))
}

func writeShared(f *os.File, _ string) error {
	mem, err := unix.Mmap(int(f.Fd()), page, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	clear(mem[:64])
	return unix.Munmap(mem)
}

// writeAIO writes by io_submit(2); struct iocb is in include/uapi/linux/aio_abi.h.
func writeAIO(f *os.File, _ string) error {
	var ring uintptr
	if _, _, e := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&ring)), 0); e != 0 {
		return e
	}
	defer unix.Syscall(unix.SYS_IO_DESTROY, ring, 0, 0)
	const write = 1               // IOCB_CMD_PWRITE
	data := make([]byte, page-64) // the headers of the program and the notes
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&data[0])
	block := new([64]byte)
	pin.Pin(block)
	binary.NativeEndian.PutUint16(block[16:], write)
	binary.NativeEndian.PutUint32(block[20:], uint32(f.Fd()))
	binary.NativeEndian.PutUint64(block[24:], uint64(uintptr(unsafe.Pointer(&data[0]))))
	binary.NativeEndian.PutUint64(block[32:], uint64(len(data)))
	binary.NativeEndian.PutUint64(block[40:], 64)
	blocks := [1]*[64]byte{block}
	if n, _, e := unix.Syscall(unix.SYS_IO_SUBMIT, ring, 1, uintptr(unsafe.Pointer(&blocks))); e != 0 || n != 1 {
		return fmt.Errorf("submitting %d writes: %w", n, e)
	}
	var done [32]byte // struct io_event
	_, _, e := unix.Syscall6(unix.SYS_IO_GETEVENTS, ring, 1, 1, uintptr(unsafe.Pointer(&done)), 0, 0)
	if n := int64(binary.NativeEndian.Uint64(done[16:])); e != 0 || n != int64(len(data)) {
		return fmt.Errorf("writing by AIO: %d: %w", n, e)
	}
	return nil
}

// TestWrittenWithin: a file that a process in another root has mapped loses its build
// ID when it is written, though the process has ended when that is heard of.
func TestWrittenWithin(t *testing.T) {
	needRoot(t)
	if isDynamic(t, "/proc/self/exe") {
		t.Skip("this test needs libraries, which are not in the other root (CGO_ENABLED=0 makes one that does not)")
	}
	b := watchingBand(t)
	root := t.TempDir()
	copyFile(t, "/proc/self/exe", filepath.Join(root, "bin/x"))
	f, err := newFile(mappedLibrary(t), filepath.Join(root, "library"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pass(b, 3*coarse)
	h := startHelper(t, "within", root, "/library")
	var pid int
	var addr uint64
	if _, err := fmt.Sscan(strings.Join(h.said["mapped"], " "), &pid, &addr); err != nil {
		t.Fatal(err)
	}
	pass(b, 3*coarse)
	if err := writeID(f, f.Name()); err != nil {
		t.Fatal(err)
	}
	after := b.Now()
	if err := h.in.Close(); err != nil {
		t.Fatal(err)
	}
	for unix.Kill(pid, 0) == nil {
		time.Sleep(time.Millisecond)
	}
	drain(t, b)
	if p, ok := b.History.Lookup(pid, addr, after); !ok || p.Mapping.File.Name != "/library" || !p.Mapping.File.BuildID.IsZero() {
		t.Errorf("once it was written, it is in %+v, %v", p.Mapping, ok)
	}
}

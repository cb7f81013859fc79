package sideband

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/instance"
)

// TestFreshWritten: a file that others can write has no build ID if another one was written
// to it right after it was mapped, and undone at once.
func TestFreshWritten(t *testing.T) {
	b := watchingBand(t)
	library, dir := mappedLibrary(t), t.TempDir()
	other := make([]byte, page)
	for i := range 30 {
		path := filepath.Join(dir, fmt.Sprint(i))
		f, err := newFile(library, path)
		if err != nil {
			t.Fatal(err)
		}
		giveAway(t, path)
		was := make([]byte, page)
		_, err = f.ReadAt(was, 0)
		// Neither os.Open nor os.Stat: a file whose time was asked for gets an exact one by
		// the next write (Linux 6.13).
		mem, mapped := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		at := b.Now()
		_, written := f.WriteAt(other, 0)
		_, undone := f.WriteAt(was, 0)
		if err := errors.Join(err, mapped, written, undone, f.Close()); err != nil {
			t.Fatal(err)
		}
		if drain(t, b); idAt(t, b, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), at) {
			t.Errorf("file %d has its build ID", i)
		}
		if err := unix.Munmap(mem); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFreshRead: nor has a file of root's that the kernel reported no build ID of, if it was
// written right after it was mapped: the ID that is read later is another one's.
func TestFreshRead(t *testing.T) {
	b := watchingBand(t)
	library, dir := mappedLibrary(t), t.TempDir()
	for i := range 10 {
		path := filepath.Join(dir, fmt.Sprint(i))
		f, err := newFile(library, path)
		if err != nil {
			t.Fatal(err)
		}
		pass(b, 3*coarse)
		// The kernel reads the ID only from memory.
		if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
			t.Fatal(err)
		}
		mem, mapped := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		at := b.Now()
		if err := errors.Join(mapped, writeOtherID(f, buildID(t, library)), f.Close()); err != nil {
			t.Fatal(err)
		}
		drain(t, b)
		p, ok := b.History.Lookup(os.Getpid(), uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), at)
		if id := p.Mapping.File.BuildID; !ok || !id.IsZero() && id != buildID(t, library) {
			t.Errorf("file %d has the build ID %v, which was written later", i, id)
		}
		if err := unix.Munmap(mem); err != nil {
			t.Fatal(err)
		}
	}
}

// writeOtherID writes another build ID to a file that has one in its first page, and sets the
// time of the write back.
func writeOtherID(f *os.File, is elfid.ID) error {
	var st unix.Stat_t
	head := make([]byte, page)
	if _, err := f.ReadAt(head, 0); err != nil {
		return err
	}
	padded := is.Padded()
	id := padded[:is.Len()]
	at := bytes.Index(head, id)
	if at < 0 {
		return fmt.Errorf("no build ID %v in the first page", is)
	}
	id[0] ^= 1
	err := unix.Fstat(int(f.Fd()), &st)
	_, written := f.WriteAt(id, int64(at))
	return errors.Join(err, written, unix.UtimesNanoAt(unix.AT_FDCWD, f.Name(), []unix.Timespec{st.Atim, st.Mtim}, 0))
}

// TestFreshProgram: a program that runs as soon as it is there has its build ID, whether it
// has ended or not.
func TestFreshProgram(t *testing.T) {
	if !deniesWrites() {
		t.Skip("this kernel lets programs be written that run")
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skipf("sleep is needed: %v", err)
	}
	if buildID(t, sleep).IsZero() {
		t.Skip("a program with a build ID is needed")
	}
	opt, dynamic := Options{}, isDynamic(t, sleep)
	if root, err := instance.Find(""); err == nil {
		opt.ExecEvent, _ = root.ID(instance.Event{System: "sched", Name: "sched_process_exec"})
	}
	for _, ends := range []bool{true, false} {
		b := watchingWith(t, opt)
		dir := t.TempDir()
		for i := range 10 {
			program := filepath.Join(dir, fmt.Sprint(i))
			copyFile(t, sleep, program)
			giveAway(t, program)
			cmd := exec.Command(program, "1000")
			cmd.Args[0] = "sleep" // as coreutils may be one program
			if ends {
				cmd.Args[1] = "0"
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			end := func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
			if ends {
				_ = cmd.Wait()
			} else {
				_ = codeOf(t, cmd.Process.Pid, program)
			}
			drain(t, b)
			if !ends {
				end()
			}
			at, addr := codeIn(t, b, cmd.Process.Pid, program)
			if p, ok := b.History.Lookup(cmd.Process.Pid, addr, at); !ok || p.Mapping.File.BuildID.IsZero() && (dynamic && opt.ExecEvent > 0 || !ends) {
				t.Errorf("program %d, ended: %v: it is in %+v, %v", i, ends, p.Mapping, ok)
			}
		}
	}
}

// codeIn returns when and where a process mapped code of a file first.
func codeIn(t *testing.T, b *Band, pid int, name string) (at tracefs.Time, addr uint64) {
	t.Helper()
	for _, v := range b.History.Spaces.Space(pid).Versions() {
		for m := range v.Mappings.All() {
			if m.File.Name == name {
				return m.Since, m.Start
			}
		}
	}
	t.Fatalf("process %d has not mapped %s", pid, name)
	return 0, 0
}

// TestFreshFirst: a file that had just been changed is a program only if its mapping is the
// first of a program that is loaded, another file's follows, and no record is missing.
func TestFreshFirst(t *testing.T) {
	const pid = 20
	file := func(name string, at uint64) *procmap.Mapping {
		id, _ := elfid.New([]byte(name + "-and-more-bytes")[:8])
		return &procmap.Mapping{Start: at, End: at + page, Perms: procmap.Read | procmap.Exec, Name: name, Kind: procmap.File, BuildID: id}
	}
	program, linker := file("/program", 0x1000), file("/linker", 0x10000)
	for name, c := range map[string]struct {
		look   *procmap.Mapping
		then   func(b *Band, at tracefs.Time)
		before []*procmap.Mapping
		keeps  bool
	}{
		"program":       {look: program, then: func(b *Band, at tracefs.Time) { b.History.mapped(pid, linker, at) }, keeps: true},
		"no linker":     {look: program, then: func(*Band, tracefs.Time) {}},
		"linker":        {look: linker, before: []*procmap.Mapping{program}, then: func(*Band, tracefs.Time) {}},
		"another exec":  {look: program, then: func(b *Band, _ tracefs.Time) { b.files.unloaded(pid) }},
		"missing":       {look: program, then: func(b *Band, at tracefs.Time) { b.gap(0, 1, at, at) }},
		"linker, later": {look: program, then: func(b *Band, at tracefs.Time) { b.files.loaded(pid, at); b.History.mapped(pid, linker, at+1) }},
	} {
		b := fakeBand(fakeRing(0, 1<<14))
		b.History.fork(1, pid, 100)
		b.History.exec(pid, "program", 110)
		b.History.loading(pid, 110)
		for _, m := range append(c.before, c.look) {
			b.History.mapped(pid, m, 120)
		}
		f := mappedFile{c.look.Name, c.look.BuildID}
		b.files.fresh(freshFile{watchedFile: watchedFile{mappedFile: f}, in: pid, start: c.look.Start, at: 120}, false)
		c.then(b, 130)
		b.History.loaded(pid, 140)
		b.files.loaded(pid, 140)
		if lost := slices.Contains(b.files.stamps.lost, f); lost == c.keeps {
			t.Errorf("%s: lost: %v", name, lost)
		}
	}
}

// TestFreshExecuted: a file that a process was seen to execute keeps its build ID once it is
// known that the process had the mapping all the time, and has not changed its program.
func TestFreshExecuted(t *testing.T) {
	const pid = 20
	m := &procmap.Mapping{Start: 0x1000, End: 0x2000, Perms: procmap.Read | procmap.Exec, Name: "/program", Kind: procmap.File}
	for name, c := range map[string]struct {
		then  func(b *Band)
		keeps bool
	}{
		"stays":         {func(*Band) {}, true},
		"ends":          {func(b *Band) { b.History.unmapped(pid, m.Start, m.End, 125) }, false},
		"other program": {func(b *Band) { b.calls.heaps.moved([]int{pid}) }, false},
		"missing":       {func(b *Band) { b.gap(0, 1, 125, 125) }, false},
	} {
		b := fakeBand(fakeRing(0, 1<<14))
		b.History.fork(1, pid, 100)
		b.History.mapped(pid, m, 120)
		f := freshFile{watchedFile: watchedFile{mappedFile: mappedFile{name: m.Name}}, in: pid, start: m.Start, at: 120}
		b.files.fresh(f, true)
		looked := b.Now()
		if b.files.settleFresh(120) {
			t.Errorf("%s: it is settled by what was known before", name)
		}
		c.then(b)
		b.files.settleFresh(looked)
		if lost := slices.Contains(b.files.stamps.lost, f.mappedFile); lost == c.keeps {
			t.Errorf("%s: lost: %v", name, lost)
		}
	}
}

// TestIsFresh: a change counts as possible where the time of a file can be behind.
func TestIsFresh(t *testing.T) {
	at := time.Unix(1000, 500_000_000)
	for _, c := range []struct {
		changed time.Time
		fresh   bool
	}{
		{at, true}, {at.Add(-tick()), true}, {at.Add(-2*tick() - 1), false}, {at.Add(-time.Second - 1), false},
		{time.Unix(1000, 0), true}, {time.Unix(999, 0), true}, {time.Unix(998, 0), false},
	} {
		if got := (pathFile{changed: c.changed}).isFresh(at); got != c.fresh {
			t.Errorf("changed %v before: %v", at.Sub(c.changed), got)
		}
	}
}

// TestDeniesWrites: it is so of a program that runs.
func TestDeniesWrites(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skipf("sleep is needed: %v", err)
	}
	program := filepath.Join(t.TempDir(), "sleep")
	copyFile(t, sleep, program)
	cmd := exec.Command(program, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	f, err := os.OpenFile(program, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	if errors.Is(err, unix.ETXTBSY) != deniesWrites() {
		t.Errorf("a program that runs, opened for writing: %v", err)
	}
}

// TestDenying: in which releases programs that run cannot be written.
func TestDenying(t *testing.T) {
	for release, want := range map[string]bool{
		"5.10.0-1-amd64": true, "6.10.14": true, "6.11.0-8-generic": false, "6.12.57+deb13-amd64": false, "6.13.0": true, "7.3.4": true, "odd": false,
	} {
		if denying(release) != want {
			t.Errorf("%s: %v", release, !want)
		}
	}
}

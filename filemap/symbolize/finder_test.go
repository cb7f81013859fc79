package symbolize

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/symbol"
)

// tool runs a program of binutils.
func tool(t *testing.T, args ...string) {
	t.Helper()
	if text, err := exec.Command(need(t, args[0]), args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, text)
	}
}

// workAt is the file offset of the function work in the C program.
func workAt(t *testing.T, program string) uint64 {
	t.Helper()
	return functionAt(t, program, "work")
}

func functionAt(t *testing.T, program, name string) uint64 {
	t.Helper()
	for _, s := range nm(t, program) {
		if s.name == name {
			return s.addr // the segments of the program lie at their offsets
		}
	}
	t.Fatalf("no function %s", name)
	return 0
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(from); err != nil {
		t.Fatal(err)
	}
}

// TestCompanion: debug information in a separate file is found where it can
// be, and only if it is the right one.
func TestCompanion(t *testing.T) {
	full := build(t, "gcc", "-g", "-O2", "testdata/src/work.c")
	at := workAt(t, full)
	f := fileOf(t, full)
	hex := f.BuildID.Hex()
	bare, debug := full+".bare", full+".debug"
	prepare := func() {
		tool(t, "objcopy", "--only-keep-debug", full, debug)
		tool(t, "strip", "-o", bare, full)
		tool(t, "objcopy", "--add-gnu-debuglink="+debug, bare)
	}
	dir, home := t.TempDir(), t.TempDir()
	for _, c := range []struct {
		what   string
		to     string
		opt    Options
		source symbol.Source
	}{
		{"beside the file", debug, Options{}, symbol.DebugFile},
		{"in .debug", filepath.Join(filepath.Dir(full), ".debug", filepath.Base(debug)), Options{}, symbol.DebugFile},
		{"by build ID", filepath.Join(dir, ".build-id", hex[:2], hex[2:]+".debug"), Options{DebugDirs: []string{dir}}, symbol.DebugFile},
		{"by build ID, short", filepath.Join(dir, hex[:2], hex[2:]+".debug"), Options{DebugDirs: []string{dir}}, symbol.DebugFile},
		{"by name", filepath.Join(dir, filepath.Base(debug)), Options{DebugDirs: []string{dir}}, symbol.DebugFile},
		{"by path", filepath.Join(dir, debug), Options{DebugDirs: []string{dir}}, symbol.DebugFile},
		{"in perf's cache", filepath.Join(home, ".debug/.build-id", hex[:2], hex[2:], "debug"), Options{Home: home}, symbol.DebugFile},
		{"fetched", filepath.Join(dir, "cache", hex, "debuginfo"), Options{Fetch: func(id, what string) (string, error) {
			return filepath.Join(dir, "cache", id, what), nil
		}}, symbol.DebugFile},
		{"fetched in vain", filepath.Join(dir, "elsewhere"), Options{Fetch: func(string, string) (string, error) {
			return "", errors.New("no server has it")
		}}, symbol.NoSource},
		{"nowhere", filepath.Join(dir, "elsewhere"), Options{}, symbol.NoSource},
	} {
		t.Run(c.what, func(t *testing.T) {
			prepare()
			if c.to != debug {
				move(t, debug, c.to)
			}
			defer os.Remove(c.to)
			f := &filemap.File{Path: bare, BuildID: f.BuildID}
			s := newSymbols(t, c.opt)
			n := s.Name(f, at+4, true)
			if n.Source != c.source || c.source != symbol.NoSource && (n.Function != "work" || n.Offset != 4 || n.Line == 0) {
				t.Errorf("%+v\n%+v", n, s.Tries(f))
			}
			if c.source == symbol.NoSource && n.Reason != symbol.Stripped {
				t.Errorf("reason %v", n.Reason)
			}
		})
	}
	t.Run("another checksum", func(t *testing.T) {
		prepare()
		file, err := os.OpenFile(debug, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		s := newSymbols(t, Options{})
		if n := s.Name(&filemap.File{Path: bare, BuildID: f.BuildID}, at, true); n.Reason != symbol.Stripped {
			t.Errorf("%+v", n)
		}
	})
	t.Run("another build ID", func(t *testing.T) {
		other := build(t, "gcc", "-g", "-O1", "testdata/src/work.c")
		prepare()
		move(t, debug, debug+".right")
		to := filepath.Join(dir, ".build-id", hex[:2], hex[2:]+".debug")
		tool(t, "objcopy", "--only-keep-debug", other, other+".debug")
		move(t, other+".debug", to)
		defer os.Remove(to)
		s := newSymbols(t, Options{DebugDirs: []string{dir}})
		f := &filemap.File{Path: bare, BuildID: f.BuildID}
		if n := s.Name(f, at, true); n.Reason != symbol.Stripped {
			t.Errorf("%+v", n)
		}
		if tries := s.Tries(f); !slices.ContainsFunc(tries, func(try symbol.Try) bool { return strings.HasPrefix(try.Result, "another file") }) {
			t.Errorf("%+v", tries)
		}
	})
}

// TestBinary: which files are used, and why others are not.
func TestBinary(t *testing.T) {
	full := build(t, "gcc", "-O2", "testdata/src/work.c")
	at := workAt(t, full)
	right := fileOf(t, full).BuildID
	var wrong filemap.BuildID
	wrong[0] = 1
	root := filepath.Dir(full)
	outside := filepath.Join(t.TempDir(), "outside")
	b, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{outside, b}, {full + ".empty", nil}, {full + ".cut", b[:len(b)/2]}, {full + ".text", []byte("#!/bin/sh\n")}} {
		if err := os.WriteFile(f.name, f.data, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, full+".link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/root", full+".proc"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(full+".dir", 0o777); err != nil {
		t.Fatal(err)
	}
	noID := full + ".noid"
	tool(t, "objcopy", "--remove-section=.note.gnu.build-id", full, noID)
	in := Options{Sysroot: root}
	fetch := func(string, string) (string, error) { return full, nil }
	for _, c := range []struct {
		what string
		file filemap.File
		opt  Options
		want symbol.Reason
	}{
		{"the file", filemap.File{Path: full, BuildID: right}, Options{}, symbol.NoReason},
		{"deleted, and there again", filemap.File{Path: full + " (deleted)", BuildID: right}, Options{}, symbol.NoReason},
		{"in a sysroot", filemap.File{Path: "/program", BuildID: right}, in, symbol.NoReason},
		{"a link out of a sysroot", filemap.File{Path: "/program.link", BuildID: right}, in, symbol.Unreadable},
		{"dots out of a sysroot", filemap.File{Path: "/../" + filepath.Base(filepath.Dir(outside)) + "/outside", BuildID: right}, in, symbol.Unreadable},
		{"another ID", filemap.File{Path: full, BuildID: wrong}, Options{}, symbol.IDMismatch},
		{"no ID in the trace", filemap.File{Path: full}, Options{}, symbol.Unverified},
		{"no ID in the trace, sysroot", filemap.File{Path: "/program"}, in, symbol.NoReason},
		{"deleted, and there again, no ID in the trace, sysroot", filemap.File{Path: "/program (deleted)"}, in, symbol.Unverified},
		{"deleted, no ID at all, sysroot", filemap.File{Path: "/program.noid (deleted)", HasID: true}, in, symbol.Unverified},
		{"the kernel saw no ID, the file has one", filemap.File{Path: "/program", HasID: true}, in, symbol.IDMismatch},
		{"no ID in the file", filemap.File{Path: noID, BuildID: right}, Options{}, symbol.IDMismatch},
		{"no ID at all, sysroot", filemap.File{Path: "/program.noid", HasID: true}, in, symbol.NoReason},
		{"fetched", filemap.File{Path: "/elsewhere", BuildID: right}, Options{Fetch: fetch}, symbol.NoReason},
		{"another one fetched", filemap.File{Path: "/elsewhere", BuildID: wrong}, Options{Fetch: fetch}, symbol.IDMismatch},
		{"not there", filemap.File{Path: full + ".not", BuildID: right}, Options{}, symbol.NoFile},
		{"memory", filemap.File{Path: "v8-jit"}, Options{}, symbol.NoFile},
		{"a directory", filemap.File{Path: full + ".dir", BuildID: right}, Options{}, symbol.Unreadable},
		{"a device", filemap.File{Path: "/dev/zero", BuildID: right}, Options{}, symbol.Unreadable},
		{"a file of the kernel's", filemap.File{Path: "/proc/version", BuildID: right}, Options{}, symbol.Unreadable},
		{"through /proc", filemap.File{Path: "/proc/self/root" + full, BuildID: right}, Options{}, symbol.Unreadable},
		{"through a link to /proc", filemap.File{Path: full + ".proc" + full, BuildID: right}, Options{}, symbol.Unreadable},
		{"empty", filemap.File{Path: full + ".empty", BuildID: right}, Options{}, symbol.Unreadable},
		{"cut", filemap.File{Path: full + ".cut", BuildID: right}, Options{}, symbol.Unreadable},
		{"text", filemap.File{Path: full + ".text", BuildID: right}, Options{}, symbol.Unreadable},
	} {
		s := newSymbols(t, c.opt)
		n := s.Name(&c.file, at, true)
		if n.Reason != c.want || c.want == symbol.NoReason && n.Function != "work" {
			t.Errorf("%s: %+v, want reason %q\n%+v", c.what, n, c.want, s.Tries(&c.file))
		}
		if id, _ := elfid.New(right[:]); c.want == symbol.IDMismatch && n.Found != id && c.file.Path != noID {
			t.Errorf("%s: found ID %s", c.what, n.Found.Hex())
		}
	}
}

// TestPlaces: places in a file that have no name, or another one.
func TestPlaces(t *testing.T) {
	full := build(t, "gcc", "-O2", "testdata/src/work.c")
	f, at := fileOf(t, full), workAt(t, full)
	s := newSymbols(t, Options{})
	s.Name(f, 1<<63+at, true) // must not be kept for the offset without its highest bit
	for _, c := range []struct {
		what   string
		offset uint64
		ran    bool
		want   symbol.Reason
	}{
		{"begin of a function", at, true, symbol.NoReason},
		{"a return address at the begin of a function", at, false, symbol.NotACall},
		{"the file's header", 16, true, symbol.OutsideText},
		{"zero", 0, false, symbol.OutsideText},
		{"far out", 1 << 40, true, symbol.OutsideText},
		{"the last offset", 1<<64 - 1, false, symbol.OutsideText},
		{"half of all offsets", 1 << 63, true, symbol.OutsideText},
	} {
		if n := s.Name(f, c.offset, c.ran); n.Reason != c.want {
			t.Errorf("%s: %+v, want reason %q", c.what, n, c.want)
		}
	}
	if a, b := s.Name(f, at, true), s.Name(f, at, true); a != b {
		t.Error("the same name twice has two pointers")
	}
}

// TestTrampoline: a signal handler returns to the begin of a function that was
// never called.
func TestTrampoline(t *testing.T) {
	full := build(t, "gcc", "-O1", "-static", "-no-pie", "testdata/src/work.c")
	out, err := exec.Command("nm", full).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, line, ok := strings.Cut("\n"+string(out), " t __restore_rt\n")
	if !ok {
		t.Skip("this libc has no __restore_rt")
	}
	before := string(out)[:len(out)-len(line)-len(" t __restore_rt\n")]
	addr, err := strconv.ParseUint(before[strings.LastIndexByte(before, '\n')+1:], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	s, f := newSymbols(t, Options{}), fileOf(t, full)
	for _, seg := range s.source(f).bin.image.Segments {
		if addr >= seg.Addr && addr-seg.Addr < seg.FileSize {
			if n := s.Name(f, addr-seg.Addr+seg.Off, false); n.Function != "__restore_rt" || n.Offset != 0 {
				t.Errorf("%+v", n)
			}
			return
		}
	}
	t.Error("no segment has it")
}

// TestMemory: more files than may be kept are named all the same.
func TestMemory(t *testing.T) {
	full := build(t, "gcc", "-g", "-O2", "testdata/src/work.c")
	at, id := workAt(t, full), fileOf(t, full).BuildID
	s := newSymbols(t, Options{Memory: 64 << 10})
	for round := range 3 {
		for i := range 2 * maxOpen {
			f := &filemap.File{Path: full, BuildID: id}
			if n := s.Name(f, at+uint64(i%7), true); n.Function != "work" {
				t.Fatalf("round %d, file %d: %+v", round, i, n)
			}
			if len(s.list) > maxOpen || len(s.list) != len(s.files) {
				t.Fatalf("%d and %d files are open", len(s.list), len(s.files))
			}
		}
	}
	if sum := func() (n int) {
		for _, src := range s.list {
			n += src.memory()
		}
		return n
	}(); sum != s.memory {
		t.Errorf("%d bytes counted, %d kept", s.memory, sum)
	}
}

package sums

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/jitcode"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// TestMade: code without a file is a Runtime's, code of files that can be written has none.
func TestMade(t *testing.T) {
	w, _, of, p := ownWalks(t)
	mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Munmap(mem)
	w.files.read(of.TGID, p)
	v := &view{walks: w, made: &w.made, program: p, pid: int(of.TGID), at: space.Monotonic()}
	m, ok := v.Find(uint64(uintptr(unsafe.Pointer(&mem[0]))))
	if has := m.Runtime != nil; !ok || !m.Exec || m.File != nil || has != jitcode.Supported {
		t.Errorf("memory of code: %+v, %v", m, ok)
	}
	p.code[0].Perms |= procmap.Write
	if m, _ := v.Find(p.code[0].Start); m.Runtime != nil || m.File != nil {
		t.Errorf("a file that can be written: %+v", m)
	}
}

// TestMadeRuns: what a process runs later has a larger number, however much of its code is known, and
// another library.
func TestMadeRuns(t *testing.T) {
	w, _ := walksOf(t)
	f := &bpffutex.Futex{TGID: noProcess, Memory: 1}
	p := w.files.program(f)
	first := w.made.runs(p, noProcess)
	p.code = []procmap.Mapping{{Start: 1, End: 2, Perms: procmap.Exec, Name: "/lib/libjvm.so.1", Kind: procmap.File}, {Start: 3, End: 4, Perms: procmap.Read, Name: "/lib/libjvm.so", Kind: procmap.File}}
	if m := first.Library(); m != nil {
		t.Errorf("%+v", m)
	}
	p.code = append(p.code, procmap.Mapping{Start: 5, End: 6, Perms: procmap.Exec, Name: "/lib/libjvm.so (deleted)", Kind: procmap.File})
	if m := w.made.runs(p, noProcess).Library(); m == nil || m.Start != 5 {
		t.Errorf("%+v", m)
	}
	if again := w.made.runs(p, noProcess); again.Began != first.Began || again.PID != noProcess {
		t.Errorf("%+v, was %+v", again, first)
	}
	f.Memory = 2
	if next := w.made.runs(w.files.program(f), noProcess); next.Began <= first.Began {
		t.Errorf("another program: %d, was %d", next.Began, first.Began)
	}
}

// TestMadeKey: stacks with the same addresses are the same only if the code there is the same function.
func TestMadeKey(t *testing.T) {
	w, _ := walksOf(t)
	one, other := &filemap.Code{Function: "one"}, &filemap.Code{Function: "other"}
	keys := make([][]byte, 0, 5)
	for _, frames := range [][]unwind.Frame{
		{{PC: 1}, {PC: 2, Code: one}}, {{PC: 1}, {PC: 2, Code: other}}, {{PC: 1, Code: one}, {PC: 2}}, {{PC: 1}, {PC: 2}}, {{PC: 1}},
	} {
		w.frames = frames
		keys = append(keys, bytes.Clone(w.key(tracefs.AtRoot)))
	}
	for i := range keys {
		for k := range i {
			if bytes.Equal(keys[i], keys[k]) {
				t.Errorf("stacks %d and %d have one key", k, i)
			}
		}
	}
	w.frames = []unwind.Frame{{PC: 1}, {PC: 2, Code: one}}
	if !bytes.Equal(w.key(tracefs.AtRoot), keys[0]) {
		t.Error("the same stack has another key")
	}
	m := w.made.function(one).memory
	if m != w.made.function(one).memory || m.Code != one || !m.Exec || len(w.made.functions) != 2 {
		t.Errorf("%+v", m)
	}
	for range 2 * maxFunctions {
		w.made.function(new(filemap.Code))
	}
	if n := len(w.made.functions); n > maxFunctions {
		t.Errorf("%d functions are kept", n)
	}
}

// TestWalksRefused: a directory of debug files that is none is an error.
func TestWalksRefused(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if w, err := newWalks(new(files), []string{none}, true, nil); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("%v, %v", w, err)
	}
}

package byid

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/shelltest"
	"ustack/filemap/symbol"
)

// program returns this program with another build ID.
func program(t *testing.T, of string) ([]byte, filemap.BuildID) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	own, err := elfid.Read(bytes.NewReader(b))
	if err != nil || own.Len() != filemap.BuildIDSize {
		t.Skipf("this program has no build ID to be replaced: %s, %v", own.Hex(), err)
	}
	id := filemap.BuildID(sha1.Sum([]byte(of)))
	old := own.Padded()
	return bytes.ReplaceAll(b, old[:], id[:]), id
}

// put writes a file.
func put(t *testing.T, data []byte, parts ...string) string {
	t.Helper()
	name := filepath.Join(parts...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, data, 0o666)); err != nil {
		t.Fatal(err)
	}
	return name
}

// hexOf returns the name of a file by build ID, xx/yyyy.
func hexOf(id filemap.BuildID) string {
	hex := symbol.ShortHex(id)
	return hex[:2] + "/" + hex[2:]
}

// finds checks what a Finder finds.
func finds(t *testing.T, opt Options, id filemap.BuildID, want string) {
	t.Helper()
	f := New(opt)
	defer f.Close()
	for range 2 { // it remembers
		if path, trust := f.Find(id); path != want || (trust == filemap.Late) != (want != "") {
			t.Errorf("%+v: found %q, want %q", opt, path, want)
		}
	}
}

// TestSysroot: a file below the sysroot has its path there. Links that lead out of it are not
// followed, and a file that has the ID but no code is another one's debug information.
func TestSysroot(t *testing.T) {
	data, id := program(t, "sysroot")
	root, other := t.TempDir(), t.TempDir()
	finds(t, Options{Sysroot: root}, id, "")
	name := put(t, data, other, "outside")
	if err := os.Symlink(name, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	finds(t, Options{Sysroot: root}, id, "")
	note := bytes.Clone(data[:1<<12]) // the head alone: no ELF that can be used
	put(t, note, root, "a", "cut")
	put(t, []byte("#!/bin/sh\n"), root, "a", "script")
	finds(t, Options{Sysroot: root}, id, "")
	put(t, data, root, "opt", "labs", "exe1")
	put(t, data, root, "opt", "labs", "exe2")
	finds(t, Options{Sysroot: root}, id, "/opt/labs/exe1")
	finds(t, Options{Sysroot: root}, filemap.BuildID{1}, "")
}

// TestMapped: the file of a program that runs is found, without any directory.
func TestMapped(t *testing.T) {
	shell := shelltest.Start(t, "")
	read := func(name string) elfid.ID {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		id, err := elfid.ReadSegments(f)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := read(fmt.Sprintf("/proc/%d/exe", shell.PID))
	if id.IsZero() {
		t.Skip("the shell has no build ID")
	}
	f := New(Options{})
	defer f.Close()
	path, trust := f.Find(filemap.BuildID(id.Padded()))
	if trust != filemap.Late || read(path) != id {
		t.Errorf("the shell is %q, with build ID %s", path, id.Hex())
	}
}

// TestAdd: of the paths with a build ID those that are still there, then the shorter ones, come
// first, and the last ones make room.
func TestAdd(t *testing.T) {
	order := []string{"/a", "/b", "/c", "/usr/lib/x", "/a (deleted)", "/b (deleted)", "/c (deleted)", "/usr (deleted)", "/usr/x (deleted)"}
	id := filemap.BuildID{1}
	for from := range order {
		files := make(map[filemap.BuildID][]string)
		for i := range 2 * len(order) {
			add(files, id, order[(from+i*7)%len(order)])
		}
		if !slices.Equal(files[id], order[:maxOfID]) {
			t.Errorf("from %d: %q", from, files[id])
		}
	}
}

// TestForged: a file of another user only claims to be the one that it says, and comes after
// all others.
func TestForged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it takes root to make a file of another user")
	}
	data, id := program(t, "forged")
	root := t.TempDir()
	forged := put(t, data, root, "a", "forged")
	if err := os.Chown(forged, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	check := func(f *Finder, path string, trust filemap.Trust) {
		t.Helper()
		defer f.Close()
		if got, is := f.Find(id); got != path || is != trust {
			t.Errorf("%q, %s, want %q, %s", got, is, path, trust)
		}
	}
	check(New(Options{Sysroot: root}), "/a/forged", filemap.Claimed)
	mapped := New(Options{})
	mapped.mapped = map[filemap.BuildID][]string{id: {forged}}
	check(mapped, forged, filemap.Claimed)
	right := put(t, data, root, "usr", "right")
	check(New(Options{Sysroot: root}), "/usr/right", filemap.Late)
	mapped = New(Options{})
	mapped.mapped = map[filemap.BuildID][]string{id: {forged, right}}
	check(mapped, right, filemap.Late)
	if err := os.Chmod(right, 0o666); err != nil {
		t.Fatal(err)
	}
	check(New(Options{Sysroot: root}), "/a/forged", filemap.Claimed)
}

// TestDirectories: directories by build ID have links to files, or the files themselves; perf's
// cache has files under their paths; and other machines have files, too.
func TestDirectories(t *testing.T) {
	data, id := program(t, "directories")
	two := hexOf(id)
	dir := t.TempDir()
	real := put(t, data, t.TempDir(), "program")
	for _, name := range []string{filepath.Join(dir, "a", ".build-id", two), filepath.Join(dir, "b", two)} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.Symlink(real, name)); err != nil {
			t.Fatal(err)
		}
	}
	finds(t, Options{DebugDirs: []string{dir + "/none", dir + "/a"}}, id, real)
	finds(t, Options{DebugDirs: []string{dir + "/b"}}, id, real)
	stored := put(t, data, dir, "c", two)
	finds(t, Options{DebugDirs: []string{dir + "/c"}}, id, stored)
	wrong, _ := program(t, "another one")
	put(t, wrong, dir, "d", two)
	finds(t, Options{DebugDirs: []string{dir + "/d"}}, id, "")

	for to, want := range map[string]string{"../../opt/bank/exe/": "/opt/bank/exe", "../../[vdso]/": "", "../exe/": "", "../../../opt/exe/": ""} {
		home := t.TempDir()
		link := filepath.Join(home, ".debug", ".build-id", two)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o777), os.Symlink(to+symbol.ShortHex(id), link)); err != nil {
			t.Fatal(err)
		}
		put(t, data, filepath.Dir(link), to+symbol.ShortHex(id), "elf")
		finds(t, Options{Home: home}, id, want)
		put(t, wrong, filepath.Dir(link), to+symbol.ShortHex(id), "elf")
		finds(t, Options{Home: home}, id, "")
	}

	asked := ""
	fetch := func(hex, what string) (string, error) { asked = hex + " " + what; return real, nil }
	finds(t, Options{Fetch: fetch}, id, real)
	if asked != symbol.ShortHex(id)+" executable" {
		t.Error(asked)
	}
	finds(t, Options{Fetch: fetch}, filemap.BuildID{9}, "")
	finds(t, Options{Fetch: func(string, string) (string, error) { return "", errors.New("none") }}, id, "")
}

package sideband

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWrittenNameless: a file that had no name when it was mapped loses its build ID
// when it is written, also when that was before the mapping was heard of, and keeps it
// when it is not.
func TestWrittenNameless(t *testing.T) {
	for kind, open := range map[string]func(library, path string) (*os.File, error){"deleted": deletedFile, "memfd": memoryFile} {
		for when, test := range map[string]struct {
			write       func(f *os.File, path string) error // nil if the file stays
			seen, loses bool
		}{
			"code": {writeCode, true, true}, "header": {writeHeader, true, true}, "at once": {writeCode, false, true},
			"header at once": {writeHeader, false, true}, "never": {nil, true, false},
		} {
			t.Run(kind+"/"+when, func(t *testing.T) {
				t.Parallel() // the kernel takes its time to close a side band
				b := watchingBand(t)
				library := mappedLibrary(t)
				f, err := open(library, filepath.Join(t.TempDir(), "library"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				passCoarse(b)
				addr := keptCode(t, fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
				before := b.Now()
				if test.seen {
					drain(t, b)
				}
				passCoarse(b)
				if test.write != nil {
					if err := test.write(f, ""); err != nil {
						t.Fatal(err)
					}
				}
				drain(t, b)
				if p, ok := b.History.Lookup(os.Getpid(), addr, before); test.seen && (!ok || p.Mapping.File.BuildID != buildID(t, library)) {
					t.Errorf("before, it is in %+v, %v", p.Mapping, ok)
				}
				if p, ok := b.History.Lookup(os.Getpid(), addr, b.Now()); !ok || p.Late || p.Mapping.File.BuildID.IsZero() != test.loses {
					t.Errorf("it is in %+v %+v, %v", p.Mapping, p.Mapping.File, ok)
				}
			})
		}
	}
}

func deletedFile(library, path string) (*os.File, error) {
	f, err := newFile(library, path)
	return f, errors.Join(err, os.Remove(path))
}

// memoryFile makes a file in memory, with a name that no other test gives one.
func memoryFile(library, path string) (*os.File, error) {
	fd, err := unix.MemfdCreate(filepath.Base(filepath.Dir(filepath.Dir(path))), unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "library")
	return f, fill(f, library)
}

// writeHeader changes the headers of the program and the notes.
func writeHeader(f *os.File, _ string) error {
	_, err := f.WriteAt(make([]byte, page-64), 64)
	return err
}

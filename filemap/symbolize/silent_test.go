package symbolize

import (
	"os"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/fusetest"
	"ustack/filemap/symbol"
)

// TestSilentServer: files of a server that gives no answer have no names, and keep
// nothing else from having them.
func TestSilentServer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	elf, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	s := fusetest.Start(t, elf)
	names := newSymbols(t, Options{})
	s.Silence()
	first := &filemap.File{Path: s.Path, BuildID: filemap.BuildID{1}}
	for _, f := range []*filemap.File{first, {Path: s.Dir + "/other.so", BuildID: filemap.BuildID{1}}, first} {
		if n := names.Name(f, 0x1000, true); n.Reason != symbol.Unreadable {
			t.Errorf("%s: %v", f.Path, n.Reason)
		}
	}
	if n := names.Name(&filemap.File{Path: self, BuildID: filemap.BuildID{1}}, 0x1000, true); n.Reason != symbol.IDMismatch {
		t.Errorf("a file of a disk: %v", n.Reason)
	}
	if tries := names.Tries(first); len(tries) == 0 || !strings.Contains(tries[0].Result, "no answer in time") {
		t.Errorf("what was tried: %+v", tries)
	}
}

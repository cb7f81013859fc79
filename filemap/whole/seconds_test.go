package whole

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ustack/filemap/imagetest"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
)

// TestOpenInSecond: on a file system that stores whole seconds, no tables are read of a file that
// has just been changed: those of what it is overwritten with would be taken for its own.
func TestOpenInSecond(t *testing.T) {
	name, id := systemFile(t)
	code, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files := openfile.NewOpener(0)
	defer files.Close()
	f := &space.File{Name: filepath.Join(imagetest.Seconds(t), "program"), BuildID: id, Kind: procmap.File}
	if err := os.WriteFile(f.Name, code, 0o755); err != nil {
		t.Fatal(err)
	}
	o := Opener{Files: files}
	if b, err := o.named(f); !errors.Is(err, errOther) {
		t.Errorf("right after it was written: %v", err)
		b.Close()
	}
	time.Sleep(3 * time.Second)
	b, err := o.named(f)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
}

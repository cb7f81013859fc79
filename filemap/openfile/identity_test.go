package openfile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"ustack/filemap/imagetest"
)

// TestIdentity: two contents of a file have one identity only if the file did not change between,
// even where times are whole seconds.
func TestIdentity(t *testing.T) {
	name := filepath.Join(imagetest.Seconds(t), "program")
	o := NewOpener(0)
	defer o.Close()
	open := func() *File {
		t.Helper()
		f, err := o.Path(name)
		check(t, err)
		t.Cleanup(func() { check(t, f.Close()) })
		return f
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 2*coarse)))
	check(t, os.WriteFile(name, []byte("one"), 0o755))
	one := open()
	check(t, os.WriteFile(name, []byte("two"), 0o755))
	two := open()
	if one.Identity() == two.Identity() {
		t.Errorf("one and two are %s", one.Identity())
	}
	if !one.Unsettled() || !one.Unsure() {
		t.Error("it has just been changed")
	}
	old := time.Now().Add(-time.Minute)
	check(t, os.Chtimes(name, old, old))
	time.Sleep(3 * time.Second) // the time of its status cannot be set
	if f, again := open(), open(); f.Identity() != again.Identity() || f.Unsettled() || f.Unsure() {
		t.Errorf("of long ago: %s and %s", f.Identity(), again.Identity())
	}
}

//go:build device

package openfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStaysMapped: a file of another user is not used although it has not changed since the trace
// began: another one with its path and build ID can be mapped, which is not kept.
func TestStaysMapped(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	const other, id = 65534, "ab12"
	name := filepath.Join(t.TempDir(), "library")
	check(t, errors.Join(os.Chmod(filepath.Dir(name), 0o777), os.WriteFile(name, []byte("is"), 0o755), os.Chown(name, other, other)))
	time.Sleep(50 * time.Millisecond) // longer than the lag of a change's time
	o := NewOpener(0)
	defer o.Close()
	f, err := o.Named(name)
	check(t, err)
	if err := o.CheckOwner(f, name, id, BeginAt(time.Now())); !errors.Is(err, ErrReplaceable) {
		t.Errorf("%v, not %v", err, ErrReplaceable)
	}
	check(t, f.Close())
}

package maps

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStoppable: once a signal has come nothing more is written.
func TestStoppable(t *testing.T) {
	var out bytes.Buffer
	stop := make(chan os.Signal, 1)
	w := &stoppable{&out, stop}
	if n, err := w.Write([]byte("one")); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	stop <- unix.SIGTERM
	if n, err := w.Write([]byte("two")); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	if out.String() != "one" {
		t.Errorf("%q is written", out.String())
	}
}

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/fusetest"
)

// TestSilentServer: a file system that gives no answer does not keep a command from
// its output.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	s := fusetest.Start(t, []byte("a file"))
	trace := filepath.Join(t.TempDir(), "trace")
	line := fmt.Sprintf("            task-7       [000] .....     1.000001: <user stack unwind>\ncookie=3\n =>  <0000000000001234> : path=%s build_id={0x1,0x2,0x3,0x4,0x5}\n", s.Path)
	if err := os.WriteFile(trace, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	cmd := exec.Command(ustackBinary(t), "replay", "-q", "--symbols", trace)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "path="+s.Path) {
				seen <- true
				return
			}
		}
		seen <- false
	}()
	select {
	case ok := <-seen:
		if !ok {
			t.Error("the stack is not in the output")
		}
	case <-time.After(time.Minute):
		t.Error("no output")
	}
	if s.Asked() == 0 {
		t.Error("the server was not asked")
	}
	// The kernel lets no thread end that waits for an answer, so neither can the
	// process.
	if err := unix.Unmount(s.Dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/filemap/fusetest"
)

// TestSilentServer: a file system that gives no answer does not stop a command, nor
// keep it from ending.
func TestSilentServer(t *testing.T) {
	s := fusetest.Start(t, []byte("a file"))
	trace := filepath.Join(t.TempDir(), "trace")
	line := fmt.Sprintf("            task-7       [000] .....     1.000001: <user stack unwind>\ncookie=3\n =>  <0000000000001234> : path=%s build_id={0x1,0x2,0x3,0x4,0x5}\n", s.Path)
	if err := os.WriteFile(trace, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, ustackBinary(t), "replay", "-q", "--symbols", trace)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "path="+s.Path) {
		t.Errorf("%v\n%s", err, out)
	}
	if s.Asked() == 0 {
		t.Error("the server was not asked")
	}
}

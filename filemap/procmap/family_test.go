package procmap

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFamily: a child and its child are found, this process's other children are not
// below the child.
func TestFamily(t *testing.T) {
	r, err := NewReader(Options{})
	if err != nil {
		t.Skipf("no proc: %v", err)
	}
	cmd := exec.Command("sh", "-c", "sleep 100 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	grandchild, ok := number([]byte(strings.TrimSpace(string(line[:n]))))
	if !ok {
		t.Fatalf("%q", line[:n])
	}
	defer func() {
		if p, err := os.FindProcess(grandchild); err == nil {
			_ = p.Kill()
		}
		_ = cmd.Wait()
	}()
	child := cmd.Process.Pid
	family, err := r.Family([]int{child, child})
	if want := []int{min(child, grandchild), max(child, grandchild)}; err != nil || !slices.Equal(family, want) {
		t.Errorf("family of %d: %v, want %v: %v", child, family, want, err)
	}
	family, err = r.Family([]int{os.Getpid()})
	if err != nil || !slices.Contains(family, child) || !slices.Contains(family, grandchild) {
		t.Errorf("family of %d: %v, want %d and %d in it: %v", os.Getpid(), family, child, grandchild, err)
	}
	// sh may not have become sleep yet.
	for range 100 {
		named, err := r.Named(func(name string) bool { return name == "sleep" })
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(named, grandchild) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("sleep is not found by its name")
}

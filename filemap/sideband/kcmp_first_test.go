//go:build linux

package sideband

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestCompareWithoutFirst: two processes whose first threads have ended do not share their memory
// for that.
func TestCompareWithoutFirst(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nofirst")
	if text, err := exec.Command("gcc", "-w", "-pthread", "-o", program, "testdata/nofirst.c").CombinedOutput(); err != nil {
		t.Skipf("%v\n%s", err, text)
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var first, second int
	defer func() {
		in.Close()
		_ = exec.Command("kill", "-KILL", fmt.Sprint(second), fmt.Sprint(first)).Run()
		_ = cmd.Wait() // it was killed
	}()
	if _, err := fmt.Fscan(out, &first, &second); err != nil {
		t.Fatal(err)
	}
	for hasMemory("/proc", first) || hasMemory("/proc", second) { // until their first threads have ended
		time.Sleep(time.Millisecond)
	}
	b, _ := openBand(t, Options{})
	for _, c := range []struct {
		p, q int
		same bool
	}{{first, second, false}, {second, first, false}, {first, first, true}} {
		if order, ok := b.compare(c.p, c.q); !ok || (order == 0) != c.same {
			t.Errorf("%+v: order %d, %t", c, order, ok)
		}
	}
}

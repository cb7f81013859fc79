//go:build linux && amd64

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveOtherVDSO: a program of 64 bits that has mapped the vDSO of 32-bit programs before
// it was traced has no functions of the other one, which all 64-bit programs have, in it.
func TestLiveOtherVDSO(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program := filepath.Join(t.TempDir(), "vdso32")
	compile(t, program, "vdso32.c")
	victim := exec.Command(program)
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var at uint64
	if _, err := fmt.Fscanf(bufio.NewReader(out), "%v\n", &at); err != nil {
		_ = victim.Wait()
		t.Skipf("the kernel has no ARCH_MAP_VDSO_32, or does not let go of its own: %v", victim.ProcessState)
	}
	live := exec.Command(ustackBinary(t), "live", "--symbols", "--format=json", "--unwind=fp", "-e", "syscalls:sys_enter_futex", "-p", strconv.Itoa(victim.Process.Pid))
	var records bytes.Buffer
	said := &startLine{begun: make(chan struct{})}
	live.Stdout, live.Stderr = &records, said
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	<-said.begun
	traces(t, live)
	if in.Close(); victim.Wait() != nil || live.Wait() != nil {
		t.Fatalf("%v, %v\n%s", victim.ProcessState, live.ProcessState, &said.text)
	}
	seen := 0
	for line := range bytes.Lines(records.Bytes()) {
		var e struct{ Stack []jitFrame }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, f := range e.Stack {
			if f.Memory != "[vdso]" {
				continue
			}
			if seen++; f.Function != "" {
				t.Fatalf("%+v, which is in the vDSO at %#x", f, at)
			}
		}
	}
	if seen < 1000 {
		t.Errorf("%d frames in it", seen)
	}
}

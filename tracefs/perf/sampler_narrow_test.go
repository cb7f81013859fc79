//go:build amd64

package perf_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/tracefs/perf"
	"ustack/tracefs/perf/perftest"
)

// TestSampler32: a 32-bit thread has the registers of its machine.
func TestSampler32(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, perftest.Program32(), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("a kernel that runs 32-bit programs is needed: %v", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	const getppid = "id == 64"
	s := openSampler(t, perf.SamplerOptions{StackBytes: 512, Threads: []int{cmd.Process.Pid},
		Tracepoints: []perf.Tracepoint{{ID: tracepoint(t, "raw_syscalls", "sys_enter"), Filter: getppid}}})
	if _, err := in.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	var sample *perf.StackSample
	for from := s.Now(); sample == nil && s.Now()-from < 10e9; {
		s.Read(func(got *perf.StackSample) { sample = got.Clone() }, func(perf.Loss) {})
	}
	if sample == nil {
		t.Fatal("no sample")
	}
	ebp, _ := sample.Regs.Get(5)
	esi, _ := sample.Regs.Get(6)
	if sample.ABI != perf.ABI32 || sample.Regs.Machine != perf.I386 || ebp != perftest.EBP32 || esi != perftest.ESI32 {
		t.Errorf("%+v", sample)
	}
	if len(sample.Stack) < 4 || binary.NativeEndian.Uint32(sample.Stack) != perftest.Stack32 {
		t.Errorf("a stack of %d bytes", len(sample.Stack))
	}
}

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/render/perfetto/perfettotest"
	"ustack/tracefs/capturetest"
)

// TestPerfettoLive: a traced program's waits are slices of its threads, by the
// clock that is used, with its own functions in their stacks.
func TestPerfettoLive(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	cmd := exec.Command(ustackBinary(t), "futex", "--live", "-q", "--symbols", "--format=perfetto", "--", work, "herd")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	noInstance(t, cmd.Process.Pid)
	trace, err := perfettotest.Read(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	const monotonic = 3 // BUILTIN_CLOCK_MONOTONIC
	if trace.Clock != monotonic {
		t.Errorf("the clock is %d", trace.Clock)
	}
	waits, arrows, own := 0, 0, 0
	for _, s := range trace.Slices {
		if s.Category == "lost" {
			continue
		}
		if s.Track.TID == 0 || s.Track.PID == 0 || s.Track.Name != filepath.Base(work) {
			t.Fatalf("%+v is on %+v", s, s.Track)
		}
		if s.Category == "wait" {
			waits++
			arrows += len(s.FlowEnd)
		}
		for _, f := range s.Stack {
			if f.Path == work && f.Function != "" && f.BuildID != "" {
				own++
				break
			}
		}
	}
	if waits < 20 || arrows < 10 || own < 20 {
		t.Errorf("%d waits, %d arrows, %d stacks with the program", waits, arrows, own)
	}
}

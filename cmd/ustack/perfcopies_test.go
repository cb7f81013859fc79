//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
)

// TestPerfCopies: stacks that perf record has copied are unwound to the frames that perf script
// finds in them, of C, C++ and the C library. perf shows the last byte of a call where we have
// the address after it.
func TestPerfCopies(t *testing.T) {
	needLive(t)
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed (Debian: linux-perf)")
	}
	dir := t.TempDir()
	work, data := filepath.Join(dir, "work"), filepath.Join(dir, "perf.data")
	compile(t, work, "work.c", "-O2", "-ldl")
	runPerf(t, perf, "record", "-q", "--call-graph", "dwarf,16384", "-m", "8M", "-o", data, "-e", "syscalls:sys_enter_futex", "--", work, "herds", "2")
	script := runPerf(t, perf, "script", "-i", data, "--ns", "--no-inline", "-F", "tid,time,event,ip,sym,dso")
	got := recordedOf(t, data)
	want := scripted(t, string(script))
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%d events, perf script has %d", len(got), len(want))
	}
	frames, roots := 0, 0
	for i := range want {
		a, b := &got[i], &want[i]
		if a.time != b.time || a.tid != b.tid {
			t.Fatalf("event %d:\n%+v\nperf script:\n%+v", i, a, b)
		}
		if len(a.frames) >= len(b.frames) {
			roots++
		}
		for k := range min(len(a.frames), len(b.frames)) {
			if frames++; a.frames[k] != returned(t, b.frames[k], k > 0) {
				t.Errorf("event %d, frame %d: %s, perf script has %s", i, k, a.frames[k], b.frames[k])
			}
		}
	}
	if roots < len(want)*9/10 {
		t.Errorf("%d of %d stacks go as far as perf script's", roots, len(want))
	}
	t.Logf("%d frames of %d events are the same, %d stacks go as far", frames, len(want), roots)
	again := profileRun(t, "replay", "-q", "--stitch", data)
	if !strings.Contains(again, " =>  <") {
		t.Errorf("no frame in the text: %.300s", again)
	}
	detached := profileRun(t, "replay", "-q", data)
	name := filepath.Join(dir, "detached.txt")
	if err := os.WriteFile(name, []byte(detached), 0o666); err != nil {
		t.Fatal(err)
	}
	if twice := profileRun(t, "replay", "-q", name); twice != detached || !strings.Contains(detached, " unwound=registers,cfi") {
		t.Errorf("the text is not read back: %.300s", detached)
	}
}

// returned turns a frame of perf script, "PATH+OFFSET", into one of ours.
func returned(t *testing.T, frame string, called bool) string {
	t.Helper()
	path, offset, ok := strings.Cut(frame, "+0x")
	if !called || !ok {
		return frame
	}
	v, err := strconv.ParseUint(offset, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s+%#x", path, v+1)
}

// recordedOf replays a perf.data with stacks at their events.
func recordedOf(t *testing.T, data string) []recordedEvent {
	t.Helper()
	f, err := defaultReplay([]string{data}, func(f *replayFlags) { f.stitch, f.Quiet = true, true })
	if err != nil {
		t.Fatal(err)
	}
	var got recordedEvents
	var said strings.Builder
	if _, err := f.drive(nil, &said, func(*saved.Trace, *resolve.Resolver, *symbolize.Symbols) render.Renderer { return &got }); err != nil {
		t.Fatal(err)
	}
	if said.Len() > 0 {
		t.Log(said.String())
	}
	return got.list
}

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/tracefs"
)

// recordedEvent is an event of a perf.data with its user stack, "PATH+OFFSET" for each
// frame, as perf script and we report it.
type recordedEvent struct {
	time   string // in microseconds
	tid    int32
	frames []string
}

// unnamed is a frame without a file.
const unnamed = "unnamed"

// scripted takes events out of the output of perf script -F tid,time,event,ip,sym,dso.
func scripted(t testing.TB, text string) (list []recordedEvent) {
	t.Helper()
	head := regexp.MustCompile(`^ *(-?\d+) +(\d+\.\d{9}): `)
	frame := regexp.MustCompile(`^\t *([0-9a-f]+) .*? \(((?:/|\[|inlined).*)\)$`)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := head.FindStringSubmatch(line); m != nil {
			tid, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, recordedEvent{time: m[2], tid: int32(tid)})
			continue
		}
		m := frame.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		e := &list[len(list)-1]
		switch ip, err := strconv.ParseUint(m[1], 16, 64); {
		case err != nil:
			t.Fatal(err)
		case ip >= 1<<63: // in the kernel
		case m[2] == "[unknown]" || strings.HasPrefix(m[2], "[") || m[2] == "//anon":
			e.frames = append(e.frames, unnamed)
		default:
			e.frames = append(e.frames, fmt.Sprintf("%s+%#x", strings.TrimSuffix(m[2], " (deleted)"), ip))
		}
	}
	return list
}

// recordedEvents collects the events of a replay. It implements render.Renderer.
type recordedEvents struct{ list []recordedEvent }

func (r *recordedEvents) Flush() error                { return nil }
func (r *recordedEvents) Close(*resolve.Totals) error { return nil }

// Batch implements render.Renderer.
func (r *recordedEvents) Batch(h *resolve.Pending) error {
	for i := range h.Records {
		rec := &h.Records[i]
		if rec.Kind != tracefs.KindEvent {
			continue
		}
		t, _ := h.Exact(rec)
		e := recordedEvent{time: fmt.Sprintf("%d.%09d", t/1e9, t%1e9), tid: rec.TID}
		if s := h.Attached[i].Stack; s != nil {
			for k := range s.Attributions {
				o := &s.Attributions[k]
				if o.File == nil {
					e.frames = append(e.frames, unnamed)
				} else {
					e.frames = append(e.frames, fmt.Sprintf("%s+%#x", o.File.Path, o.At(s.Text, &s.Frames[k])))
				}
			}
		}
		r.list = append(r.list, e)
	}
	return nil
}

// abortsOnIDs is what perf 6.1 says on Linux 6.18 if records of mappings are marked as if
// they had build IDs, as they are for all once any program has asked for them.
const abortsOnIDs = "assertion failed at util/build-id.c"

// runPerf runs perf, and returns its output.
func runPerf(t *testing.T, perf string, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(perf, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && bytes.Contains(exit.Stderr, []byte(abortsOnIDs)) {
		t.Skipf("perf %v: another program has asked for build IDs meanwhile, and perf 6.1 aborts then: %s", args, exit.Stderr)
	}
	if exit != nil && crashed(exit.ProcessState) {
		t.Skipf("perf %v crashed (%v): %s", args, err, exit.Stderr)
	}
	if err != nil {
		t.Fatalf("perf %v: %v", args, err)
	}
	return out
}

// crashed reports whether a program has ended by a fault of its own: an assertion that
// failed, or an access to memory.
func crashed(p *os.ProcessState) bool {
	status := p.Sys().(syscall.WaitStatus)
	return status.Signaled() && slices.Contains([]syscall.Signal{syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL}, status.Signal())
}

// TestPerfRecorded: what perf record has written is the same to us as to perf script, event
// by event and frame by frame.
func TestPerfRecorded(t *testing.T) {
	needLive(t)
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed (Debian: linux-perf)")
	}
	work := filepath.Join(t.TempDir(), "work")
	compile(t, work, "work.c", "-ldl")
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"file", nil},
		{"build IDs", []string{"--buildid-mmap"}},
		{"compressed", []string{"-z", "-k", "mono"}},
		{"pipe", nil},
		{"threads", []string{"--threads", "--namespaces"}},
	} {
		t.Run(c.name, func(t *testing.T) { recordAndCompare(t, perf, work, c.name, c.flags) })
	}
}

// recordAndCompare has perf record a program, and compares what we read of it with what
// perf script does.
func recordAndCompare(t *testing.T, perf, work, name string, flags []string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "perf.data")
	args := slices.Concat([]string{"record", "-q", "-g", "-m", "8M", "-o", data, "-e", "syscalls:sys_enter_futex,syscalls:sys_exit_futex",
		"-e", "sched:sched_switch", "-e", "cpu-clock"}, flags, []string{"--", work, "herds", "5"})
	if name == "pipe" {
		args[slices.Index(args, data)] = "-"
	}
	out := runPerf(t, perf, args...)
	if name == "pipe" {
		if err := os.WriteFile(data, out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	comparePerf(t, perf, name, data)
}

// comparePerf compares a file with perf script of it.
func comparePerf(t *testing.T, perf, name, data string) {
	t.Helper()
	script := runPerf(t, perf, "script", "-i", data, "--ns", "-F", "tid,time,event,ip,sym,dso")
	want := scripted(t, string(script))
	f, err := defaultReplay([]string{data}, func(f *replayFlags) { f.stitch, f.Quiet = true, true })
	if err != nil {
		t.Fatal(err)
	}
	var got recordedEvents
	var said strings.Builder
	if _, err := f.drive(nil, &said, func(*saved.Trace, *resolve.Resolver, *symbolize.Symbols) render.Renderer { return &got }); err != nil {
		t.Fatal(err)
	}
	if len(got.list) != len(want) || len(want) == 0 {
		t.Fatalf("%s: %d events, perf script has %d", name, len(got.list), len(want))
	}
	frames, other := 0, 0
	for i := range want {
		a, b := &got.list[i], &want[i]
		if b.tid == -1 { // of a thread that ends; the data of a tracepoint have its number
			b.tid = a.tid
		}
		if a.time != b.time || a.tid != b.tid || len(a.frames) != len(b.frames) {
			t.Fatalf("%s, event %d:\n%+v\nperf script:\n%+v", name, i, a, b)
		}
		for k := range b.frames {
			frames++
			if a.frames[k] != b.frames[k] {
				if other++; other < 5 {
					t.Errorf("%s, event %d, frame %d: %s, perf script has %s", name, i, k, a.frames[k], b.frames[k])
				}
			}
		}
	}
	if frames == 0 {
		t.Errorf("%s: no frames", name)
	}
	t.Logf("%s: %d of %d frames are the same, of %d events. %s", name, frames-other, frames, len(want), &said)
}

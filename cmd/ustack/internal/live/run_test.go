package live

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/live/sources"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/tracefs/capturetest"
)

// plainTracefs is a directory with what a run of this process uses of tracefs. It
// returns the FIFO that is the trace_pipe.
func plainTracefs(t *testing.T) (dir, pipe string) {
	t.Helper()
	dir = t.TempDir()
	in := filepath.Join("instances", "ustack-"+strconv.Itoa(os.Getpid()))
	files := map[string]string{"available_events": "syscalls:sys_enter_futex\nsyscalls:sys_exit_futex\nfilemap:file_map\n"}
	for _, name := range []string{
		"tracing_on", "current_tracer", "trace_options", "set_event_pid", "set_event_notrace_pid", "events/enable",
		"options/userstacktrace", "options/userstacktrace_deferred",
	} {
		files[filepath.Join(in, name)] = "0\n"
	}
	files[filepath.Join(in, "trace_clock")] = "[local] global mono\n"
	files[filepath.Join(in, "buffer_size_kb")] = "1410\n"
	for _, event := range []string{"syscalls/sys_enter_futex", "syscalls/sys_exit_futex", "filemap/file_map"} {
		files[filepath.Join(in, "events", event, "enable")] = "0\n"
		files[filepath.Join(in, "events", event, "filter")] = "none\n"
	}
	files[filepath.Join(in, "per_cpu", "cpu0", "stats")] = "entries: 0\noverrun: 0\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	pipe = filepath.Join(dir, in, "trace_pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, pipe
}

// recordingSink notes what is called.
type recordingSink struct {
	calls  []string // a call that is repeated once
	start  *Start
	events int
	open   error // of Open
	step   error // of Step
	done   bool
}

func (r *recordingSink) note(call string) {
	if len(r.calls) == 0 || r.calls[len(r.calls)-1] != call {
		r.calls = append(r.calls, call)
	}
}

func (r *recordingSink) Open(start *Start) (Needs, error) {
	r.note("open")
	r.start = start
	return Needs{Tick: time.Second, Processes: true}, r.open
}

func (r *recordingSink) Renderer(*resolve.Resolver) render.Renderer {
	r.note("renderer")
	return counting{r}
}

func (r *recordingSink) Step(*resolve.Totals) (bool, error) {
	r.note("step")
	return r.done, r.step
}

func (r *recordingSink) End() error {
	r.note("end")
	return nil
}

// counting counts events.
type counting struct{ r *recordingSink }

func (c counting) Batch(h *resolve.Pending) error {
	c.r.events += int(h.Events)
	return nil
}
func (counting) Flush() error                { return nil }
func (counting) Close(*resolve.Totals) error { return nil }

// TestRun: a sink has its methods called in the order that Sink promises, whatever
// fails, and the errors come out.
func TestRun(t *testing.T) {
	text := capturetest.Read(t, "../../../../testdata/captures/hash/edge3/trace.txt.zst")
	failed := errors.New("failed")
	for _, test := range []struct {
		name string
		sink recordingSink
		want string
		err  error
	}{
		{"all is well", recordingSink{}, "open renderer step end", nil},
		{"done at once", recordingSink{done: true}, "open renderer step end", nil},
		{"open fails", recordingSink{open: failed}, "open", failed},
		{"a step fails", recordingSink{step: failed}, "open renderer step end", failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, pipe := plainTracefs(t)
			stop := feed(t, pipe, text)
			defer stop()
			var said bytes.Buffer
			opt := &Options{
				Tracefs: dir, Proc: "/proc", Source: sources.Auto, Unwind: UnwindFP, Mappings: MappingsAuto, Stitch: true,
				Reporter: &Reporter{Command: "test", Out: &said},
				Exit:     func(code int) { t.Errorf("exit with %d", code) },
			}
			code, err := Run(opt, &test.sink)
			if code != 0 || !errors.Is(err, test.err) {
				t.Errorf("exit code %d, %v\n%s", code, err, said.String())
			}
			if got := strings.Join(test.sink.calls, " "); got != test.want {
				t.Errorf("called %s, want %s", got, test.want)
			}
			if test.err == nil && !test.sink.done {
				checkRun(t, &test.sink, said.String())
			}
		})
	}
}

// feed writes a text into a FIFO, until it is stopped: a run may end before the text.
func feed(t *testing.T, pipe string, text []byte) (stop func()) {
	t.Helper()
	// Neither opening nor writing waits in the kernel for a reader that may never come.
	f, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := f.Write(text)
		if err = errors.Join(err, f.Close()); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}()
	return func() {
		_ = f.Close() // perhaps again
		<-done
	}
}

// checkRun checks what a sink got of a run that went well.
func checkRun(t *testing.T, r *recordingSink, said string) {
	t.Helper()
	if r.start.Processes != nil || len(r.start.Files()) > 0 {
		t.Error("the trace of another machine has processes of this one")
	}
	if r.start.Refused() != 0 || len(r.start.Events) != 2 {
		t.Errorf("%d records refused, events %v", r.start.Refused(), r.start.Events)
	}
	if r.events == 0 || !slices.ContainsFunc(strings.Split(said, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "ustack: "+strconv.Itoa(r.events)+" events, ")
	}) {
		t.Errorf("%d events came, and the totals are\n%s", r.events, said)
	}
}

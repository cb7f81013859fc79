package live

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/live/sources"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/tracefs/instance"
)

// needLive skips a test that cannot trace here. Where such tests must run
// (USTACK_LIVE=must), it fails.
func needLive(t *testing.T) {
	t.Helper()
	_, err := instance.Find("")
	if err == nil && os.Geteuid() != 0 {
		err = errors.New("not root")
	}
	if err == nil {
		return
	}
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatalf("cannot trace: %v", err)
	}
	t.Skipf("cannot trace: %v", err)
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
	needLive(t)
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
			defer callFutex()()
			var said bytes.Buffer
			opt := &Options{
				Proc: "/proc", Source: sources.Auto, Unwind: UnwindFP, Mappings: MappingsAuto, Stitch: true,
				PIDs: []int{os.Getpid()}, Duration: time.Second / 4,
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

// callFutex wakes the waiters of a futex, of which there are none, until it is
// stopped.
func callFutex() (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var word uint32
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
				const wake = 1
				_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), wake, 1)
			}
		}
	}()
	return func() { close(end); <-done }
}

// checkRun checks what a sink got of a run that went well.
func checkRun(t *testing.T, r *recordingSink, said string) {
	t.Helper()
	if r.start.Processes == nil || len(r.start.Files()) == 0 {
		t.Error("there are no processes, or no files")
	}
	if r.start.Refused() != 0 || len(r.start.Events) < 2 {
		t.Errorf("%d records refused, events %v", r.start.Refused(), r.start.Events)
	}
	if r.events == 0 || !slices.ContainsFunc(strings.Split(said, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "ustack: "+strconv.Itoa(r.events)+" events, ")
	}) {
		t.Errorf("%d events came, and the totals are\n%s", r.events, said)
	}
}

// TestEnded: where nothing could be shown, which is said by itself, what could not be saved is still
// an error; and a format that cannot show nothing is one only if there was something.
func TestEnded(t *testing.T) {
	none, full, said := render.ErrEmpty, errors.New("no space left on device"), errors.New("nothing was seen")
	for name, test := range map[string]struct {
		read, sink, others, empty error
		shown                     bool
		want                      error
	}{
		"nothing, and the save failed": {nil, none, full, said, false, full},
		"nothing":                      {nil, none, nil, said, false, nil},
		"nothing read":                 {none, nil, nil, said, false, nil},
		"nothing in this format":       {nil, none, nil, nil, true, none},
		"something":                    {nil, nil, nil, nil, true, nil},
		"the save failed":              {nil, nil, full, nil, true, full},
		"reading failed":               {full, none, nil, said, false, full},
	} {
		shown, err := ended(test.read, test.sink, test.others, test.empty)
		if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) || shown != test.shown {
			t.Errorf("%s: %v, %v, not %v, %v", name, shown, err, test.shown, test.want)
		}
	}
}

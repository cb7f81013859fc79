package instance

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/tracefs/capturetest"
)

// watched is an instance that traces, with its watch.
func watched(t *testing.T) (*Instance, *Watch) {
	t.Helper()
	in, err := live(t).Create()
	check(t, err)
	t.Cleanup(func() { check(t, in.Remove()) })
	check(t, in.Configure(Config{BufferKB: 64}))
	events := []Event{{System: "sched", Name: "sched_process_exec"}}
	check(t, in.Enable(events))
	w, err := in.Watch(Config{}, events)
	check(t, err)
	check(t, in.Start())
	return in, w
}

// other writes as another user does: nothing of ours knows of it.
func other(t *testing.T, in *Instance, name, value string) {
	t.Helper()
	check(t, os.WriteFile(in.dir.path(name), []byte(value), 0))
}

func texts(changes []Change) (list []string) {
	for _, c := range changes {
		list = append(list, c.String())
	}
	return list
}

// What others write is noticed at once, also where it is as it was in the end.
func TestWatchNoticesOthers(t *testing.T) {
	in, w := watched(t)
	w.Look()
	for _, test := range []struct {
		name, value string
		want        string
	}{
		{"trace_clock", "local", "trace_clock (mono to local)"},
		{"trace_clock", "mono", "trace_clock (local to mono)"},
		{"tracing_on", "0", "tracing_on (1 to 0)"},
		{"tracing_on", "1", "tracing_on (0 to 1)"},
		{"options/userstacktrace", "1", "trace_options (nouserstacktrace to userstacktrace)"},
		{"trace_options", "raw", "trace_options (noraw to raw)"},
		{"buffer_size_kb", "128", "buffer_size_kb ("},
		{"trace_clock", "mono", "trace_clock"},
		{"trace", "", "trace"},
		{"set_event_pid", "1", "set_event_pid"},
		{"events/sched/sched_process_exec/enable", "0", "events/sched/sched_process_exec/enable"},
		{"events/sched/sched_process_exec/filter", "pid == 1", "events/sched/sched_process_exec/filter"},
		{"events/sched/enable", "0", "events/sched/enable"},
		{"events/enable", "0", "events/enable"},
		{"set_event", "", "set_event"},
		{"per_cpu/cpu0/buffer_size_kb", "256", "per_cpu/cpu0/buffer_size_kb"},
	} {
		if got := w.Look(); got != nil {
			t.Errorf("before %s: %v", test.name, texts(got))
		}
		other(t, in, test.name, test.value)
		if got := texts(w.Look()); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, test.want) }) {
			t.Errorf("%s to %s: %q, want %q", test.name, test.value, got, test.want)
		}
	}
}

// A clock that goes away and comes back has been noticed, too.
func TestWatchThereAndBack(t *testing.T) {
	in, w := watched(t)
	other(t, in, "trace_clock", "local")
	other(t, in, "trace_clock", "mono")
	if got := texts(w.Look()); !slices.Equal(got, []string{"trace_clock"}) {
		t.Errorf("there and back: %q", got)
	}
}

// A clock that is another one from the beginning, too.
func TestWatchBeginsLate(t *testing.T) {
	in, w := watched(t)
	other(t, in, "trace_clock", "local")
	check(t, w.Close())
	w, err := in.Watch(Config{}, nil)
	check(t, err)
	if got := texts(w.Look()); !slices.Equal(got, []string{"trace_clock (mono to local)"}) {
		t.Errorf("%q", got)
	}
}

// Without inotify the values are compared.
func TestWatchWithoutInotify(t *testing.T) {
	in, w := watched(t)
	w.inotify = -1
	other(t, in, "trace_clock", "local")
	if got := texts(w.Look()); !slices.Equal(got, []string{"trace_clock (mono to local)"}) {
		t.Errorf("the clock: %q", got)
	}
	other(t, in, "tracing_on", "0")
	time.Sleep(compareEvery)
	if got := texts(w.Look()); !slices.Equal(got, []string{"tracing_on (1 to 0)"}) {
		t.Errorf("tracing: %q", got)
	}
}

// What we write ourselves is no change.
func TestWatchOwnWrites(t *testing.T) {
	in, w := watched(t)
	check(t, in.Reannounce())
	check(t, in.SetPIDs([]int{os.Getpid()}, true))
	check(t, in.AddPIDs([]int{1}))
	check(t, in.Disable([]Event{{System: "sched", Name: "sched_process_exec"}}))
	check(t, in.Stop())
	if got := w.Look(); got != nil {
		t.Errorf("%q", texts(got))
	}
	time.Sleep(compareEvery)
	if got := w.Look(); got != nil {
		t.Errorf("a second later: %q", texts(got))
	}
}

// What we write is ours, also to who looks while it is written.
func TestWatchOwnWritesMeanwhile(t *testing.T) {
	in, w := watched(t)
	w.Look()
	end, found := make(chan struct{}), make(chan []Change)
	go func() {
		var all []Change
		for {
			select {
			case <-end:
				found <- append(all, w.Look()...)
				return
			default:
				all = append(all, w.Look()...)
			}
		}
	}()
	events := []Event{{System: "sched", Name: "sched_process_exec"}}
	rounds := 100
	if capturetest.Brief() {
		rounds = 10
	}
	for range rounds {
		check(t, in.SetPIDs([]int{os.Getpid()}, true))
		check(t, in.AddPIDs([]int{1}))
		check(t, in.Enable(events))
	}
	close(end)
	if all := <-found; all != nil {
		t.Errorf("%d writes of our own are said to be another user's: %q", len(all), texts(all[:1]))
	}
}

// The clock and the options are put back, and that is no change.
func TestWatchRestore(t *testing.T) {
	in, w := watched(t)
	other(t, in, "trace_clock", "local")
	other(t, in, "options/sym-userobj", "1")
	other(t, in, "options/context-info", "0")
	if got := w.Look(); len(got) != 3 {
		t.Errorf("%q", texts(got))
	}
	check(t, w.Restore())
	if got := w.Look(); got != nil {
		t.Errorf("after Restore: %q", texts(got))
	}
	clock, err := in.Clock()
	check(t, err)
	options, err := in.read(fileOptions)
	check(t, err)
	if clock != "mono" || options != w.first {
		t.Errorf("clock %s, options\n%s, want\n%s", clock, options, w.first)
	}
}

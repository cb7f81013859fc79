package instance

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestEnable writes the filters of all before it switches any on.
func TestEnable(t *testing.T) {
	in := create(t, fake(t))
	sel, err := in.Root().Select(specs(t, "sched:*/prev_pid==3/", "sched_wakeup"))
	check(t, err)
	check(t, in.Enable(sel.Events))
	for name, want := range map[string]string{
		"sched/sched_switch/enable": "1", "sched/sched_switch/filter": "prev_pid==3",
		"sched/sched_wakeup/enable": "1", "sched/sched_wakeup/filter": "none",
		"irq/irq_handler_entry/enable": "0",
	} {
		in.is(t, "events/"+name, want)
	}
	check(t, in.Disable(sel.Events))
	in.is(t, "events/sched/sched_switch/enable", "0")
}

// TestEnableAll or none.
func TestEnableAll(t *testing.T) {
	in := create(t, fake(t))
	check(t, os.Remove(in.dir.path("events/sched/sched_wakeup/enable")))
	sel, err := in.Root().Select(specs(t, "sched:*"))
	check(t, err)
	if err := in.Enable(sel.Events); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "sched:sched_wakeup") {
		t.Errorf("error %v", err)
	}
	in.is(t, "events/sched/sched_switch/enable", "0")

	check(t, os.RemoveAll(in.dir.path("events/irq")))
	if err := in.Enable([]Event{{System: "irq", Name: "irq_handler_entry", Filter: "x"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a filter of an event that is gone: %v", err)
	}
}

func TestErrorText(t *testing.T) {
	const log = "[  866.369621] event filter parse error: error: Field not found\n  Command: foo == 3\n           ^\n\n"
	const want = "event filter parse error: error: Field not found\n  Command: foo == 3\n           ^"
	if got := errorText(log); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := errorText(""); got != "" {
		t.Errorf("%q", got)
	}
	// Of the filter file, before Linux 5.2.
	if got := errorText("foo == 3\n^\nparse_error: Field not found\n\n"); got != "foo == 3\n^\nparse_error: Field not found" {
		t.Errorf("%q", got)
	}
}

// TestLiveFilters: what the kernel refuses is shown in its own words, its
// caret under the place, and nothing is on.
func TestLiveFilters(t *testing.T) {
	r := live(t)
	in := configured(t, r)
	for _, c := range []struct{ filter, text string }{
		{"foo == 3", "Field not found"},
		{"(prev_pid == 3", "Too many '('"}, // the kernel says ENOENT
		{"prev_pid == 3)", "Too few '('"},  // and EPERM
		{`prev_pid == "x"`, "Expecting numeric field"},
		{"prev_pid ==", "Invalid value"},
	} {
		sel, err := r.Select([]Spec{{System: "sched", Event: "sched_switch", Filter: c.filter}})
		check(t, err)
		err = in.Enable(append([]Event{{System: "sched", Name: "sched_waking"}}, sel.Events...))
		var refused *filterError
		if !errors.As(err, &refused) || refused.Event != sel.Events[0] {
			t.Errorf("%s: error %v", c.filter, err)
			continue
		}
		if lines := strings.Split(refused.Text, "\n"); len(lines) != 3 || !strings.Contains(lines[0], c.text) ||
			!strings.Contains(lines[1], c.filter) || strings.TrimSpace(lines[2]) != "^" || strings.Contains(lines[0], "[") {
			t.Errorf("%s:\n%s", c.filter, refused.Text)
		}
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the error is taken for another one", c.filter)
		}
		in.is(t, "events/sched/sched_waking/enable", "0")
	}
	sel, err := r.Select(specs(t, "sched_switch/prev_pid == 3 && (next_pid == 4)/"))
	check(t, err)
	check(t, in.Enable(sel.Events))
	in.is(t, "events/sched/sched_switch/filter", "prev_pid == 3 && (next_pid == 4)")
	in.is(t, "events/sched/sched_switch/enable", "1")
}

// TestLiveDefaults: this kernel has system calls, or says so.
func TestLiveDefaults(t *testing.T) {
	r := live(t)
	in := configured(t, r)
	sel, err := r.Select(Defaults())
	check(t, err)
	check(t, in.Enable(sel.Events))
	for i := range sel.Events {
		in.is(t, sel.Events[i].file("enable"), "1")
	}
	if len(sel.Events)+len(sel.Missing) != len(Defaults()) {
		t.Errorf("%d events, %d missing, of %d", len(sel.Events), len(sel.Missing), len(Defaults()))
	}
}

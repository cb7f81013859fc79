package instance

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseSpec(t *testing.T) {
	for text, want := range map[string]Spec{
		"sched:sched_switch":               {System: "sched", Event: "sched_switch"},
		"sched":                            {Event: "sched"},
		"sys_enter_futex":                  {Event: "sys_enter_futex"},
		"sched:*":                          {System: "sched", Event: "*"},
		"*:sys_*_futex":                    {System: "*", Event: "sys_*_futex"},
		"*stat*":                           {Event: "*stat*"},
		"s[a-c]hed:x?":                     {System: "s[a-c]hed", Event: "x?"},
		"sched:sched_switch/prev_pid==3/":  {System: "sched", Event: "sched_switch", Filter: "prev_pid==3"},
		"futex/ op & 0x7f == 0 /":          {Event: "futex", Filter: "op & 0x7f == 0"},
		`a:b/path ~ "/usr/*" || x == "/"/`: {System: "a", Event: "b", Filter: `path ~ "/usr/*" || x == "/"`},
	} {
		want.typed = true
		got, err := ParseSpec(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v (%v), want %+v", text, got, err, want)
		}
	}
}

func TestParseSpecRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "want SYSTEM:EVENT",
		":x":                     "want SYSTEM:EVENT",
		"sched:":                 "want SYSTEM:EVENT",
		"/x==1/":                 "want SYSTEM:EVENT",
		"a:b:c":                  `':' cannot be`,
		"sched switch":           `' ' cannot be`,
		"sched\n":                `'\n' cannot be`,
		"a\x00b":                 `'\x00' cannot be`,
		"ü:x":                    "cannot be",
		"..:enable":              `".." is no name`,
		"sched:..":               `".." is no name`,
		"a:[b":                   "syntax error in pattern",
		"a:b/x==1":               "no / at its end",
		"a:b/":                   "no / at its end",
		"a:b//":                  "the filter is empty",
		"a:b/ /":                 "the filter is empty",
		"a:b/0/":                 "the filter 0",
		"a:b/x == 1\n/":          "", // blanks at the end are of no matter
		"a:b/x == 1\n&& y==2/":   "control character",
		"a:b/x == 1 &&/":         "ends with &&",
		"a:b/x == 1 || /":        "ends with ||",
		"all":                    "trace the tracer",
		"*":                      "trace the tracer",
		"*:*":                    "trace the tracer",
		"**:*":                   "trace the tracer",
		"a:b/" + long(4095):      "",
		"a:b/" + long(4096):      "4096 bytes",
		"sched:sched_switch/x/y": "no / at its end",
	} {
		_, err := ParseSpec(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

// long is a filter of n bytes, and the slash after it.
func long(n int) string { return strings.Repeat("x", n) + "/" }

func TestSelect(t *testing.T) {
	r := fake(t)
	for _, c := range []struct {
		specs []string
		want  []string // events with their filters
	}{
		{[]string{"sched:sched_switch"}, []string{"sched:sched_switch"}},
		{[]string{"sys_enter_futex"}, []string{"syscalls:sys_enter_futex"}},
		// A name is one of systems and of events.
		{[]string{"sched"}, []string{"sched:sched_switch", "sched:sched_wakeup", "other:sched"}},
		{[]string{"sched:*"}, []string{"sched:sched_switch", "sched:sched_wakeup"}},
		{[]string{"sys*_futex"}, []string{"syscalls:sys_enter_futex", "syscalls:sys_exit_futex"}},
		{[]string{"sched:*[!h]"}, []string{"sched:sched_wakeup"}},
		{[]string{"irq*"}, []string{"irq:irq_handler_entry"}},
		{[]string{"sched:sched_switch", "sched_switch", "sched:*"}, []string{"sched:sched_switch", "sched:sched_wakeup"}},
		// The last one has the say over the filter.
		{[]string{"sched:*", "sched_switch/prev_pid==3/"}, []string{"sched:sched_switch/prev_pid==3/", "sched:sched_wakeup"}},
		{[]string{"sched_switch/prev_pid==3/", "sched:*"}, []string{"sched:sched_switch", "sched:sched_wakeup"}},
		{[]string{"sched:*/x/"}, []string{"sched:sched_switch/x/", "sched:sched_wakeup/x/"}},
	} {
		sel, err := r.Select(specs(t, c.specs...))
		var got []string
		for _, e := range sel.Events {
			got = append(got, Spec{System: e.System, Event: e.Name, Filter: e.Filter}.String())
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %q (%v), want %q", c.specs, got, err, c.want)
		}
	}
}

func specs(t testing.TB, texts ...string) []Spec {
	t.Helper()
	var list []Spec
	for _, text := range texts {
		s, err := ParseSpec(text)
		check(t, err)
		list = append(list, s)
	}
	return list
}

// TestSelectMissing: every spec that fits nothing is named, unless it may be
// missing.
func TestSelectMissing(t *testing.T) {
	r := fake(t)
	_, err := r.Select(specs(t, "nothing:at_all", "sched", "futex", "*futexx*/x/"))
	for _, want := range []string{"no event nothing:at_all\n", "no event futex; it has syscalls:sys_enter_futex, syscalls:sys_exit_futex, syscalls:sys_enter_futex_wait\n", "no event *futexx*/x/"} {
		if err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "no event sched") {
		t.Errorf("error %v", err)
	}

	if _, err := r.Select(specs(t, "syscals:sys_enter_futx")); err == nil || !strings.HasSuffix(err.Error(), "(did you mean syscalls:sys_enter_futex?)") {
		t.Errorf("error %v", err)
	}

	if _, err := r.Select(specs(t, "sys_enter_futx")); err == nil || !strings.HasSuffix(err.Error(), "(did you mean sys_enter_futex?)") {
		t.Errorf("error %v", err)
	}

	sel, err := r.Select(Defaults())
	check(t, err)
	if got, want := list(sel.Events), "syscalls:sys_enter_futex, syscalls:sys_exit_futex, syscalls:sys_enter_futex_wait"; got != want {
		t.Errorf("the default events are %s, want %s", got, want)
	}
	if len(sel.Missing)+len(sel.Events) != len(Defaults()) || sel.Missing[0].String() != "syscalls:sys_exit_futex_wait" {
		t.Errorf("missing: %s", list(sel.Missing))
	}

	tree(t, r.Path(), map[string]string{availableEvents: "sched:sched_switch\n"})
	if _, err := r.Select(Defaults()); err == nil || !strings.Contains(err.Error(), "CONFIG_FTRACE_SYSCALLS") {
		t.Errorf("a kernel without system calls: error %v", err)
	}
}

// TestHostileEvents: names that are paths are not taken from anywhere.
func TestHostileEvents(t *testing.T) {
	r := fake(t)
	tree(t, r.Path(), map[string]string{availableEvents: "..:..\n../../x:y\na:\n:b\nno colon\na b:c\nsched:sched_switch\n"})
	sel, err := r.Select([]Spec{{System: "*", Event: "*"}})
	if err != nil || list(sel.Events) != "sched:sched_switch" {
		t.Errorf("%s (%v)", list(sel.Events), err)
	}
}

// FuzzParseSpec: what is accepted can be written again, and names nothing
// outside of events/.
func FuzzParseSpec(f *testing.F) {
	for _, text := range []string{"sched:sched_switch", "sched", "a:b/c/", "*:x*", "[a-b]:c/d/e/", "..:x", "a/0/", "all", "a:b/ x && /"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		if err != nil {
			return
		}
		again, err := ParseSpec(s.String())
		if err != nil || again != s {
			t.Fatalf("%q is %+v, and again %+v (%v)", text, s, again, err)
		}
		if strings.ContainsAny(s.System+s.Event, "/\x00\n") || strings.ContainsAny(s.Filter, "\x00\n") || len(s.Filter) > maxFilter {
			t.Fatalf("%q is %+v", text, s)
		}
	})
}

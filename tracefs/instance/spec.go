package instance

import (
	"fmt"
	"path"
	"strings"
)

// Spec is what one -e asks for:
//
//	SYSTEM:EVENT    events of a system; both may have *, ? and [...]
//	NAME            all events of the system, and all events, by that name
//
// each with /FILTER/ after it if need be (Documentation/trace/events.rst,
// "Event filtering"). A filter may contain slashes.
type Spec struct {
	// System and Event are patterns (man 7 glob). System is empty in the form
	// NAME.
	System, Event string
	// Filter is empty for none.
	Filter string
	// Optional: a kernel need not have it.
	Optional bool
	typed    bool // by a user, who may have meant another one
}

// String returns the spec as it is written.
func (s Spec) String() string {
	text := s.Event
	if s.System != "" {
		text = s.System + ":" + s.Event
	}
	if s.Filter != "" {
		text += "/" + s.Filter + "/"
	}
	return text
}

// maxFilter is one less than the kernel takes in one write (event_filter_write,
// PAGE_SIZE).
const maxFilter = 4095

// ParseSpec reads the value of -e. Select and Enable find out whether the
// kernel has such events, and takes the filter.
func ParseSpec(text string) (Spec, error) {
	s, err := parseSpec(text)
	if err != nil {
		return Spec{}, fmt.Errorf("event %q: %w", text, err)
	}
	s.typed = true
	return s, nil
}

func parseSpec(text string) (s Spec, err error) {
	name, rest, filtered := strings.Cut(text, "/")
	if filtered {
		if s.Filter, err = parseFilter(rest); err != nil {
			return s, err
		}
	}
	system, event, both := strings.Cut(name, ":")
	if !both {
		system, event = "", name
	}
	if both && system == "" || event == "" {
		return s, fmt.Errorf("want SYSTEM:EVENT, SYSTEM or EVENT, each with /FILTER/ if need be")
	}
	for _, pattern := range []string{system, event} {
		if err := checkPattern(pattern); err != nil {
			return s, err
		}
	}
	s.System, s.Event = system, event
	if s.everything() {
		return s, fmt.Errorf("a stack for every event of the kernel would trace the tracer; name systems or events")
	}
	return s, nil
}

// everything reports whether it is all events by another name. Longer spellings
// exist, and pass: a user who writes one wants all events.
func (s *Spec) everything() bool {
	all := func(p string) bool { return strings.Trim(p, "*") == "" }
	return s.System == "" && s.Event == "all" || all(s.System) && all(s.Event)
}

func parseFilter(rest string) (string, error) {
	filter, ok := strings.CutSuffix(rest, "/")
	filter = strings.TrimSpace(filter)
	switch {
	case !ok:
		return "", fmt.Errorf("the filter has no / at its end")
	case filter == "":
		return "", fmt.Errorf("the filter is empty")
	case filter == "0":
		return "", fmt.Errorf("the kernel takes the filter 0 as no filter")
	case strings.HasSuffix(filter, "&&"), strings.HasSuffix(filter, "||"):
		// The kernel would take it.
		return "", fmt.Errorf("the filter ends with %s", filter[len(filter)-2:])
	case len(filter) > maxFilter:
		return "", fmt.Errorf("the filter has %d bytes, the kernel takes %d", len(filter), maxFilter)
	}
	if i := strings.IndexFunc(filter, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return "", fmt.Errorf("the filter has a control character (%q)", filter[i])
	}
	return filter, nil
}

// checkPattern allows what names of events are made of, and patterns.
func checkPattern(p string) error {
	for i := range len(p) {
		switch c := p[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_-.*?[]^!", c) >= 0:
		default:
			return fmt.Errorf("%q cannot be in the name of an event", c)
		}
	}
	// Kernel names that only look like directories.
	if strings.Trim(p, ".") == "" && p != "" {
		return fmt.Errorf("%q is no name", p)
	}
	if _, err := path.Match(shellPattern(p), "x"); err != nil {
		return fmt.Errorf("the pattern %q: %w", p, err)
	}
	return nil
}

// matches reports whether an event is asked for.
func (s *Spec) matches(e *Event) bool {
	if s.System == "" {
		return match(s.Event, e.System) || match(s.Event, e.Name)
	}
	return match(s.System, e.System) && match(s.Event, e.Name)
}

func match(pattern, name string) bool {
	ok, _ := path.Match(shellPattern(pattern), name) // checked before
	return ok
}

// shellPattern gives [!a-z] its meaning in man 7 glob.
func shellPattern(p string) string { return strings.ReplaceAll(p, "[!", "[^") }

// defaults are the system calls by which threads wait for each other (man 2
// futex, futex2 since Linux 6.7), and the one that resumes an interrupted wait
// (FORMATS 6.3).
var defaults = [...]string{"futex", "futex_wait", "futex_wake", "futex_waitv", "futex_requeue", "restart_syscall"}

// Scheduler returns the events that show when threads run, and could, and where they run: one
// comes with each tick of a CPU's timer.
func Scheduler() []Spec {
	return []Spec{{System: "sched", Event: "sched_switch", Optional: true}, {System: "sched", Event: "sched_waking", Optional: true},
		{System: "rcu", Event: "rcu_utilization", Filter: Tick, Optional: true}}
}

// Tick passes what rcu_sched_clock_irq in kernel/rcu/tree.c has traced, at each tick of the
// timer on a CPU that is not idle.
const Tick = `s == "Start scheduler-tick"`

// Waits returns the events that show what threads wait for, of any kind.
func Waits() []Spec {
	return []Spec{{System: "sched", Event: "sched_switch"}, {System: "sched", Event: "sched_waking"},
		{System: "raw_syscalls", Event: "sys_enter", Optional: true}, {System: "raw_syscalls", Event: "sys_exit", Optional: true},
		{System: "exceptions", Event: "page_fault_user", Optional: true}}
}

// Defaults returns the events that are traced by default.
func Defaults() []Spec {
	var specs []Spec
	for _, call := range defaults {
		for _, at := range []string{"sys_enter_", "sys_exit_"} {
			specs = append(specs, Spec{System: "syscalls", Event: at + call, Optional: true})
		}
	}
	return specs
}

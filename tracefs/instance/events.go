package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"ustack/tracefs/nearest"
)

// Event is an event of the kernel, with the filter it is to have.
type Event struct {
	System, Name string
	Filter       string
}

// String returns SYSTEM:NAME.
func (e Event) String() string { return e.System + ":" + e.Name }

// Selection is the choice of Specs.
type Selection struct {
	// Events, each once, in the kernel's order.
	Events []Event
	// Missing are the Optional ones that the kernel does not have.
	Missing []Spec
}

// Select finds the events that specs ask for. If several ask for the same
// event, it gets the filter of the last one. The error names every spec that
// fits no event.
func (r *Root) Select(specs []Spec) (Selection, error) {
	var sel Selection
	all, err := r.Events()
	if err != nil {
		return sel, err
	}
	chosen := make(map[int]string) // filter by index
	var errs []error
	for _, s := range specs {
		found := false
		for i := range all {
			if s.matches(&all[i]) {
				chosen[i], found = s.Filter, true
			}
		}
		switch {
		case !found && s.Optional:
			sel.Missing = append(sel.Missing, s)
		case !found:
			errs = append(errs, fmt.Errorf("the kernel has no event %s%s", s, similar(all, s)))
		}
	}
	for i, e := range all {
		if filter, ok := chosen[i]; ok {
			e.Filter = filter
			sel.Events = append(sel.Events, e)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Selection{}, err
	}
	if len(sel.Events) == 0 {
		return Selection{}, fmt.Errorf("the kernel has none of the events %s (CONFIG_FTRACE_SYSCALLS)", list(specs))
	}
	return sel, nil
}

// similar names some events whose names have this one in them, else the one that it is a
// slip for.
func similar(all []Event, s Spec) string {
	const most = 3
	name := s.Event
	var found []Event
	for _, e := range all {
		if len(found) < most && strings.Contains(e.Name, strings.Trim(name, "*?")) {
			found = append(found, e)
		}
	}
	if len(found) == 0 && s.typed && !strings.ContainsAny(name, "*?") {
		return nearest.Meant(Spec{System: s.System, Event: name}.String(), spelled(all, s.System != ""))
	}
	if len(found) == 0 || strings.Trim(name, "*?") == "" {
		return ""
	}
	return "; it has " + list(found)
}

// spelled returns the names of events, with their systems or without, as the user wrote one.
func spelled(all []Event, system bool) (names []string) {
	for _, e := range all {
		if system {
			names = append(names, e.String())
		} else {
			names = append(names, e.Name)
		}
	}
	return names
}

// list joins names for a message.
func list[T fmt.Stringer](items []T) string {
	var names []string
	for _, it := range items {
		names = append(names, it.String())
	}
	return strings.Join(names, ", ")
}

// availableEvents is the file that lists all events.
const availableEvents = "available_events"

// Events lists the kernel's events: lines SYSTEM:NAME.
func (r *Root) Events() ([]Event, error) {
	text, err := r.read(availableEvents)
	if errors.Is(err, fs.ErrPermission) {
		return nil, r.denied("listing the events of", err)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the kernel's events: %w", err)
	}
	var all []Event
	for line := range strings.Lines(text) {
		system, event, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || checkPattern(system) != nil || checkPattern(event) != nil || system == "" || event == "" {
			continue // nothing that has a directory
		}
		all = append(all, Event{System: system, Name: event})
	}
	return all, nil
}

// ID returns the number of an event, by which perf_event_open(2) knows it too.
func (r *Root) ID(e Event) (uint64, error) {
	text, err := r.read(e.file("id"))
	if err != nil {
		return 0, fmt.Errorf("reading the number of the event %s: %w", e, err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("reading the number of the event %s: %w", e, err)
	}
	return id, nil
}

func (e *Event) file(name string) string { return "events/" + e.System + "/" + e.Name + "/" + name }

// SetFilters gives events their filters, which the kernel checks. It switches
// nothing on.
func (i *Instance) SetFilters(events []Event) error {
	for k := range events {
		if err := i.setFilter(&events[k]); err != nil {
			return err
		}
	}
	return nil
}

// Enable gives events their filters and then, if the kernel took them all,
// switches the events on. If one cannot be switched on, none is.
func (i *Instance) Enable(events []Event) error {
	if err := i.SetFilters(events); err != nil {
		return err
	}
	for k := range events {
		if err := i.write(events[k].file("enable"), "1"); err != nil {
			err = fmt.Errorf("switching the event %s on: %w", events[k], err)
			return errors.Join(err, i.Disable(events[:k]))
		}
	}
	return nil
}

// Disable switches events off.
func (i *Instance) Disable(events []Event) error {
	for k := range events {
		if err := i.write(events[k].file("enable"), "0"); err != nil {
			return fmt.Errorf("switching the event %s off: %w", events[k], err)
		}
	}
	return nil
}

// filterError is a filter that the kernel refuses.
type filterError struct {
	Event Event
	// Text is the kernel's explanation: lines, the last one with a caret under
	// the place. Empty if there is none.
	Text string
	// Err is the error of writing the filter. Its number means nothing: a
	// parenthesis too many gives EPERM, one too few ENOENT. So there is no Unwrap.
	Err error
}

func (e *filterError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("the kernel refuses the filter %q of the event %s: %v", e.Event.Filter, e.Event, e.Err)
	}
	return fmt.Sprintf("the kernel refuses the filter of the event %s:\n%s", e.Event, e.Text)
}

// setFilter has the kernel check a filter. It switches nothing on.
func (i *Instance) setFilter(e *Event) error {
	if e.Filter == "" {
		return nil
	}
	const log = "error_log"
	_ = i.write(log, "\n") // empties it: what it has then is of our filter
	err := i.write(e.file("filter"), e.Filter)
	if err == nil || errors.Is(err, ErrRemoved) {
		return err
	}
	if !i.dir.has(e.file("filter")) { // its error may say ENOENT for a parenthesis too many
		return fmt.Errorf("setting the filter of the event %s: %w", e, err)
	}
	text, rerr := i.read(log)
	if rerr != nil { // before Linux 5.2
		text, _ = i.read(e.file("filter"))
	}
	return &filterError{*e, errorText(text), err}
}

// errorText takes time stamps and blank lines out of the text of error_log:
//
//	[  866.369621] event filter parse error: error: Field not found
//	  Command: foo == 3
//	           ^
func errorText(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, " \n")
		if _, rest, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(line, "[") {
			line = rest
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

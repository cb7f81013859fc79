package instance

import (
	"fmt"

	"ustack/tracefs/text"
)

// StackSource is how the kernel takes user stacks.
type StackSource uint8

const (
	// BestStacks asks for the best the kernel has.
	BestStacks StackSource = iota
	// StockStacks are taken at the event: raw addresses, eight frames (option
	// userstacktrace, every kernel).
	StockStacks
	// DeferredStacks are taken on return to user space, with identifiers of
	// files (option userstacktrace_delay).
	DeferredStacks
)

func (s StackSource) String() string {
	switch s {
	case StockStacks:
		return "stock"
	case DeferredStacks:
		return "deferred"
	}
	return "best"
}

const (
	optionStock    = "userstacktrace"
	optionDeferred = "userstacktrace_delay"
)

// SetStacks switches user stacks on, for all events of the instance, and
// returns the source that it has chosen. BestStacks are stock ones if the
// kernel refuses deferred ones: about 60 instances can have those at a time
// (unwind_deferred_init in kernel/unwind/deferred.c).
func (i *Instance) SetStacks(want StackSource) (StackSource, error) {
	if want != StockStacks && i.dir.hasOption(optionDeferred) {
		// Version 5 of the series wants both options; in version 6 the second one
		// replaces the first (FORMATS 2.1).
		if err := i.mustSet(optionStock); err != nil {
			return 0, err
		}
		err := i.mustSet(optionDeferred)
		switch {
		case err == nil:
			return DeferredStacks, nil
		case want == DeferredStacks:
			return 0, err
		}
		i.dir.dropDeferred()
		return StockStacks, i.mustSet(optionStock)
	}
	if want == DeferredStacks {
		return 0, fmt.Errorf("switching deferred stacks on: the kernel has no option %s", optionDeferred)
	}
	return StockStacks, i.mustSet(optionStock)
}

// Refused reports whether the kernel has deferred stacks and has refused them
// to this instance.
func (i *Instance) Refused(got StackSource) bool {
	return got == StockStacks && i.dir.hasOption(optionDeferred)
}

// mustSet sets an option that the kernel must have.
func (i *Instance) mustSet(name string) error {
	known, err := i.SetOption(name, true)
	if err == nil && !known {
		err = fmt.Errorf("switching stacks on: the kernel has no option %s", name)
	}
	return err
}

// EnableMappings switches the events on that announce files, by all their names,
// and returns the ones that the kernel has.
func (i *Instance) EnableMappings() ([]Event, error) {
	list, err := i.root.mappingEvents()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list, i.Enable(list)
}

// mappingEvents returns the events of the kernel that announce files.
func (r *Root) mappingEvents() ([]Event, error) {
	all, err := r.Events()
	if err != nil {
		return nil, err
	}
	var list []Event
	for _, e := range all {
		if text.IsMappingEvent(e.Name) {
			list = append(list, e)
		}
	}
	return list, nil
}

// Reannounce makes the kernel forget which identifiers it has announced, so
// that it announces each again when it meets it next. It writes to tracing_on
// without a change (rb_simple_write in v6 6/6 and later versions). Switching
// the option off and on would do it too, but takes the stacks away from all
// threads that sleep in the kernel now: they have asked for one, and
// unwind_deferred_cancel drops the request.
func (i *Instance) Reannounce() error {
	i.run.Lock()
	defer i.run.Unlock()
	if i.state != started {
		return nil // Start does it
	}
	if err := i.write("tracing_on", "1"); err != nil {
		return fmt.Errorf("asking for new file mapping events: %w", err)
	}
	return nil
}

// dropDeferred switches deferred stacks off before the kernel frees the
// instance. The kernel should do that, but the posted series looks for the
// option among other flags (__remove_instance in v5 6/9 and v6 3/6: tr->flags,
// not tr->trace_flags), and the unwinder would call into freed memory. The
// order matters to v5, which releases it only while both options are set.
func (d dir) dropDeferred() {
	if d.has("options/" + optionDeferred) {
		_ = d.write("options/"+optionDeferred, "0") // we can but try
	}
}

package instance

import (
	"golang.org/x/sys/unix"
)

// Facts describes the tracing interface, found out without changing anything.
type Facts struct {
	Path string
	// ReadOnly: nothing can be changed there, whatever the rights are.
	ReadOnly bool
	Files    []FileFact
	// Options are the names of the trace options that instances can have.
	Options []string
	Clocks  []string
	// Deferred: the kernel takes stacks on return to user space.
	Deferred bool
	// Mappings are the events that announce files.
	Mappings []Event
	// Default are the events that are traced by default, none if that does not work
	// here; DefaultMissing are the ones that the kernel does not have.
	Default        []Event
	DefaultMissing []Spec
	// Events is how many events the kernel has.
	Events int
	// Instances are all there are, ours and others'.
	Instances []string
	// Leftovers are the instances that Clean would remove.
	Leftovers []string
	// Errors are of facts that could not be found out.
	Errors []error
}

// FileFact is a file or directory of the interface.
type FileFact struct {
	Name string
	// Use is its purpose.
	Use                        string
	Exists, Readable, Writable bool
	// NeedRead and NeedWrite are the access that ustack needs.
	NeedRead, NeedWrite bool
	// Optional: ustack works without it, and Without is how.
	Optional bool
	Without  string
}

// OK reports whether the file has the access that ustack needs.
func (f *FileFact) OK() bool {
	return f.Exists && (f.Readable || !f.NeedRead) && (f.Writable || !f.NeedWrite)
}

// needed are the files that are used in an instance, as the top level has them
// too, by name.
var needed = [...]FileFact{
	{Name: instances, Use: "an instance of our own", NeedRead: true, NeedWrite: true},
	{Name: availableEvents, Use: "finding events", NeedRead: true},
	{Name: "events", Use: "switching events on", NeedRead: true},
	{Name: "tracing_on", Use: "starting and stopping", NeedWrite: true},
	{Name: "trace_pipe", Use: "reading the trace", NeedRead: true},
	{Name: "trace_clock", Use: "a clock that perf shares", NeedRead: true, NeedWrite: true},
	{Name: "buffer_size_kb", Use: "the size of the buffer", NeedRead: true, NeedWrite: true},
	{Name: "options/" + optionStock, Use: "stacks", NeedWrite: true},
	{Name: "options/event-fork", Use: "children of those traced, or left out", NeedWrite: true},
	{Name: "options/" + optionDeferred, Use: "deferred stacks", NeedWrite: true, Optional: true,
		Without: "stacks are taken at the event, at most 8 frames, by frame pointers; they get files all the same"},
	{Name: notPIDs, Use: "leaving ourselves out", NeedWrite: true, Optional: true,
		Without: "live needs -p or a command (the file is there from Linux 5.7 on)"},
	{Name: onlyPIDs, Use: "tracing some processes only", NeedWrite: true, Optional: true,
		Without: "live traces all processes: no -p, no command (the file is there from Linux 4.4 on)"},
	{Name: "options/irq-info", Use: "finding the event that a stack belongs to", NeedWrite: true, Optional: true,
		Without: "which event a stack belongs to is less sure"},
	{Name: "per_cpu", Use: "counting losses", NeedRead: true, Optional: true,
		Without: "no hint how large a buffer would have lost nothing"},
	{Name: "error_log", Use: "the kernel's answer to a bad filter", NeedRead: true, NeedWrite: true, Optional: true,
		Without: "a filter is refused without a reason (the file is there from Linux 5.2 on)"},
}

// HasDeferred reports whether the kernel has deferred stacks.
func (r *Root) HasDeferred() bool { return r.has("options/" + optionDeferred) }

// Facts collects the facts.
func (r *Root) Facts() Facts {
	f := Facts{Path: r.Path(), ReadOnly: r.readOnly()}
	for _, n := range needed {
		n.Exists = r.has(n.Name)
		n.Readable = r.can(n.Name, unix.R_OK)
		n.Writable = r.can(n.Name, unix.W_OK)
		f.Files = append(f.Files, n)
	}
	f.Deferred = r.HasDeferred()
	note := func(err error) {
		if err != nil {
			f.Errors = append(f.Errors, err)
		}
	}
	var err error
	f.Instances, err = r.Instances()
	note(err)
	f.Leftovers, err = r.Leftovers()
	note(err)
	f.Options, err = r.options()
	note(err)
	clocks, err := r.read("trace_clock")
	f.Clocks, _ = words(clocks)
	note(err)
	all, err := r.Events()
	f.Events = len(all)
	note(err)
	if err == nil {
		f.Mappings, err = r.mappingEvents()
		note(err)
		sel, err := r.Select(Defaults())
		if err != nil { // not even one, or not what must be there
			sel.Missing = Defaults()
		}
		f.Default, f.DefaultMissing = sel.Events, sel.Missing
	}
	return f
}

// readOnly reports whether the file system is mounted read-only.
func (r *Root) readOnly() bool {
	var st unix.Statfs_t
	return unix.Statfs(r.Path(), &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// options lists the trace options that have a file.
func (r *Root) options() ([]string, error) { return r.list("options") }

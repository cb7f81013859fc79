package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Config is how an instance is set up. Other settings that the parser of the
// text depends on are set as it needs them.
type Config struct {
	// Clock is a name of trace_clock, "mono" if empty: the time of
	// clock_gettime(CLOCK_MONOTONIC), which perf can use too.
	Clock string
	// BufferKB is the size of the buffer of each CPU in KiB, 0 for the kernel's
	// own choice.
	BufferKB int
	// Discard makes a full buffer refuse new events, in place of writing over
	// old ones.
	Discard bool
	// TGID has the text carry the process of each thread, where the kernel knows
	// it. If it is false, the setting stays as it is: switching the option
	// off would do so for the events of all instances
	// (trace_event_enable_tgid_record).
	TGID bool
}

const defaultClock = "mono"

// option is a trace option and its required value. An instance begins with the
// settings of the top level.
type option struct {
	name string
	on   bool
	why  string // what it is for, or what breaks
}

// options are set in this order. (Instances have no file for some of them: see
// setWord.) An option that a kernel does not have is skipped: the kernel then
// always behaves as required.
var options = [...]option{
	// Columns of the text (FORMATS 1.1, 1.2).
	{"context-info", true, "task, CPU and time"},
	{"irq-info", true, "the flags show which event a stack belongs to"},
	{"latency-format", false, "other columns, cut names"},
	{"verbose", false, "other columns, types before arguments"},
	{"raw", false, "numbers in place of text"},
	{"hex", false, "bytes in place of text"},
	{"bin", false, "bytes in place of text"},
	{"fields", false, "stacks become UNKNOWN TYPE"},
	{"annotate", false, "lines between the records"},
	{"printk-msg-only", false, "markers without columns"},
	{"record-cmd", true, "names of tasks"},
	// Stacks.
	{"stacktrace", false, "the kernel's own stacks, which are not needed"},
	{"userstacktrace", false, "set by SetStacks"},
	{"userstacktrace_delay", false, "set by SetStacks"},
	{"sym-userobj", false, "offsets in mappings, of whatever runs when the text is read"},
	{"sym-addr", false, "addresses after the symbols"},
	// The threads whose events are traced.
	{"event-fork", false, "set with the list of threads"},
	{"copy_trace_marker", false, "records that others write to the top level"},
	// Reading.
	{"block", false, "poll would always report data"},
	{"pause-on-trace", false, "a reader would stop us"},
}

// Configure sets an instance up, before anything else is done with it. Tracing
// and stacks are off then.
func (i *Instance) Configure(c Config) error {
	if c.Clock == "" {
		c.Clock = defaultClock
	}
	if err := i.write("tracing_on", "0"); err != nil {
		return fmt.Errorf("setting up the instance: %w", err)
	}
	if err := i.write("current_tracer", "nop"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("setting up the instance: %w", err)
	}
	set := append(options[:len(options):len(options)],
		option{name: "overwrite", on: !c.Discard})
	if c.TGID {
		set = append(set, option{name: "record-tgid", on: true})
	}
	for _, o := range set {
		if _, err := i.SetOption(o.name, o.on); err != nil {
			return err
		}
	}
	if err := i.setClock(c.Clock); err != nil {
		return err
	}
	return i.setBuffer(c.BufferKB)
}

// SetOption sets a trace option of the instance, and reports whether the kernel
// has it.
func (i *Instance) SetOption(name string, on bool) (known bool, err error) {
	value := "0"
	if on {
		value = "1"
	}
	err = i.write("options/"+name, value)
	if errors.Is(err, fs.ErrNotExist) {
		return i.setWord(name, on)
	}
	if err != nil {
		return false, fmt.Errorf("setting the option %s to %s: %w", name, value, err)
	}
	return true, nil
}

// setWord sets an option by trace_options, where each is a word: NAME or
// noNAME. Some have no file in instances.
func (i *Instance) setWord(name string, on bool) (known bool, err error) {
	const all = "trace_options"
	text, err := i.read(all)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the options: %w", err)
	}
	want, other := name, "no"+name
	if !on {
		want, other = other, want
	}
	words := strings.Fields(text)
	switch {
	case slices.Contains(words, want):
		return true, nil
	case !slices.Contains(words, other):
		return false, nil
	}
	if err := i.write(all, want); err != nil {
		return false, fmt.Errorf("setting the option %s: %w", want, err)
	}
	return true, nil
}

// hasOption reports whether the kernel has a trace option with a file.
func (d dir) hasOption(name string) bool { return d.has("options/" + name) }

func (i *Instance) setClock(name string) error {
	err := i.write("trace_clock", name)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("setting the clock %s: %w", name, err)
	if text, rerr := i.read("trace_clock"); rerr == nil {
		clocks, _ := words(text)
		err = fmt.Errorf("%w; the kernel has %s", err, strings.Join(clocks, ", "))
	}
	return err
}

// words splits a list in which the current one is in brackets.
func words(text string) (all []string, current string) {
	for _, w := range strings.Fields(text) {
		if strings.HasPrefix(w, "[") && strings.HasSuffix(w, "]") && len(w) > 2 {
			w = w[1 : len(w)-1]
			current = w
		}
		all = append(all, w)
	}
	return all, current
}

// Clock returns the clock of the instance.
func (i *Instance) Clock() (string, error) {
	text, err := i.read("trace_clock")
	if err != nil {
		return "", fmt.Errorf("reading the clock: %w", err)
	}
	_, current := words(text)
	return current, nil
}

func (i *Instance) setBuffer(kb int) error {
	if kb == 0 {
		return nil
	}
	if err := i.write("buffer_size_kb", strconv.Itoa(kb)); err != nil {
		return fmt.Errorf("making a buffer of %d KiB for each CPU: %w", kb, err)
	}
	return nil
}

// BufferKB returns the size of the buffer of each CPU in KiB. The kernel rounds
// the requested size, and begins with very little until tracing is set up.
func (i *Instance) BufferKB() (int, error) {
	text, err := i.read("buffer_size_kb")
	if err != nil {
		return 0, fmt.Errorf("reading the size of the buffer: %w", err)
	}
	kb, err := parseKB(text)
	if err != nil {
		return 0, fmt.Errorf("reading the size of the buffer: %w", err)
	}
	return kb, nil
}

// parseKB reads a buffer_size_kb: a number, "7 (expanded: 1408)" before
// anything has been set, or "X" if the CPUs differ.
func parseKB(text string) (int, error) {
	text, _, _ = strings.Cut(strings.TrimSpace(text), " ")
	kb, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no size: %w", text, err)
	}
	return int(kb), nil
}

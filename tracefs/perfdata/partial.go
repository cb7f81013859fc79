package perfdata

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Followed says whose mappings a file has.
type Followed uint8

const (
	// FollowedWhole: those that any thread of a recorded process makes.
	FollowedWhole Followed = iota
	// FollowedThreads: those that the recorded threads make. Others of their processes may make some
	// that are not in the file: perf record -t, --no-inherit and --per-thread.
	FollowedThreads
	// FollowedPlaces: those that are made on the recorded CPUs (perf record -C; newer perfs follow
	// processes on all CPUs then), in the recorded control groups (-G), while perf was not paused
	// (--control), or among the last ones, as rings are overwritten (--overwrite).
	FollowedPlaces
	// FollowedLater: all, but what perf has read of /proc, records without a time, can be of later than
	// the first records: perf record --switch-output and --tail-synthesize.
	FollowedLater
)

// maxArgs bounds the arguments of perf.
const maxArgs = 1 << 12

// Bits of an event.
const (
	// flagInherit: it follows what the recorded threads make.
	flagInherit = 1 << 1
	// flagMmap: it reports mappings.
	flagMmap = 1 << 8
	// flagBackward: the ring is written backward, over what is in it.
	flagBackward = 1 << 27
)

// commandLine reads perf's arguments (HEADER_CMDLINE).
func (f *File) commandLine(r *fields) {
	for n := min(r.word32(), maxArgs); n > 0 && !r.bad; n-- {
		f.args = append(f.args, r.text())
	}
}

// cpus reads how many CPUs were online (HEADER_NRCPUS).
func (f *File) cpus(r *fields) {
	_ = r.word32() // those that there are
	f.online = int(min(r.word32(), 1<<16))
}

// Followed returns whose mappings the file has, as far as perf's arguments and events show. In doubt
// it is not all.
func (f *File) Followed() Followed {
	o := recordOptions(f.args)
	switch {
	case len(f.args) == 0 && (f.unended || f.err != nil): // perf has had arguments, which the file lacks
		return FollowedPlaces
	case o.paused, o.cgroups, f.overwritten(), o.cpus && !f.everyCPU():
		return FollowedPlaces
	case o.threads || (o.alone || !f.inherits()) && !o.all:
		return FollowedThreads
	case o.later:
		return FollowedLater
	}
	return FollowedWhole
}

// inherits reports whether all events that report mappings follow what the recorded threads make. perf
// may have one for all processes that does not: a dummy, which it has for some only on machines with two
// kinds of cores or with --delay.
func (f *File) inherits() bool {
	for _, a := range f.events.byID {
		dummy := a.typ == unix.PERF_TYPE_SOFTWARE && a.config == unix.PERF_COUNT_SW_DUMMY
		if a.flags&flagMmap != 0 && a.flags&flagInherit == 0 && !dummy {
			return false
		}
	}
	return true
}

// overwritten reports whether mappings may have been overwritten in a ring.
func (f *File) overwritten() bool {
	return slices.ContainsFunc(f.events.list, func(a *attr) bool { return a.flags&flagMmap != 0 && a.flags&flagBackward != 0 })
}

// everyCPU reports whether mappings were recorded on all CPUs that were online.
func (f *File) everyCPU() bool {
	n := 0
	for _, a := range f.events.byID {
		if a.flags&flagMmap != 0 {
			n++
		}
	}
	return f.online > 0 && n >= f.online
}

// options are those of perf record that say what is recorded.
type options struct{ cpus, cgroups, paused, threads, alone, all, later bool }

// recordOptions reads perf's arguments, up to the program that it is to run. An argument after an
// option that is not known can be its value or the program: options after it count if there is less
// in the file by them.
func recordOptions(args []string) (o options) {
	for i := 0; i < len(args); i++ {
		if args[i] == "record" {
			args = args[i+1:]
			break
		}
	}
	sure := o // without what may be the program's
	doubt := false
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		value := false
		long, isLong := strings.CutPrefix(arg, "--")
		switch {
		case isLong && long == "":
			args = nil
		case isLong:
			var known bool
			value, known = o.long(long)
			doubt = doubt || !known && len(args) > 0 && !strings.HasPrefix(args[0], "-")
		case len(arg) > 1 && arg[0] == '-':
			value = o.short(arg[1:])
		default:
			args = nil // the program
		}
		if value && len(args) > 0 {
			args = args[1:]
		}
		if !doubt {
			sure = o
		}
	}
	o.all = sure.all
	return o
}

// long takes an option. It reports whether the next argument is its value, or may be if the option is
// not known. perf takes the beginning of a name for the name.
func (o *options) long(text string) (value, known bool) {
	name, _, valued := strings.Cut(text, "=")
	switch {
	case name == "":
	case strings.HasPrefix("cpu", name):
		o.cpus = true
	case strings.HasPrefix("cgroup", name):
		o.cgroups = true
	case strings.HasPrefix("control", name):
		o.paused = true
	case strings.HasPrefix(name, "switch-output"), strings.HasPrefix("switch-output", name), strings.HasPrefix("tail-synthesize", name):
		o.later = true
	case strings.HasPrefix("tid", name):
		o.threads = true
	case strings.HasPrefix("no-inherit", name), strings.HasPrefix("per-thread", name):
		o.alone = true
	case name == "all-cpus":
		o.all = true
	}
	takes, known := longOptions[name]
	known = known || strings.HasPrefix(name, "no-")
	return !valued && (takes || !known), known || valued
}

// short takes options of one letter each. It reports whether the next argument is the value of the
// last one.
func (o *options) short(letters string) (value bool) {
	for i, c := range letters {
		switch c {
		case 'C':
			o.cpus = true
		case 'G':
			o.cgroups = true
		case 't':
			o.threads = true
		case 'i':
			o.alone = true
		case 'a':
			o.all = true
		case 'I', 'S', 'z': // their values are in the same argument
			return false
		}
		if strings.ContainsRune("CDFGcejkmoprtu", c) {
			return i == len(letters)-1
		}
	}
	return false
}

// longOptions are the long options (tools/perf/builtin-record.c), and whether the next argument is
// their value: not where it is optional, after =.
var longOptions = func() map[string]bool {
	all := make(map[string]bool)
	for _, name := range strings.Fields(`aio all-cgroups all-cpus all-kernel all-user aux-sample bpf-event branch-any buffering
		buildid-all buildid-mmap code-page-size compression-level data data-mmap data-page-size debuginfod dry-run exclude-perf group inherit
		intr-regs kcore kernel-callchains latency namespaces no-buildid no-buildid-cache no-inherit no-samples off-cpu overwrite
		per-thread period phys-data quiet raw-samples running-time sample-cpu sample-identifier sample-mem-info snapshot stat strict-freq
		switch-events switch-output tail-synthesize threads timestamp timestamp-boundary timestamp-filename transaction
		user-callchains user-regs verbose weight`) {
		all[name] = false
	}
	for _, name := range strings.Fields(`affinity branch-filter call-graph cgroup clang-opt clang-path clockid control count cpu delay
		event filter freq max-size mmap-flush mmap-pages num-thread-synthesize off-cpu-thresh output pid proc-map-timeout realtime
		setup-filter switch-max-files switch-output-event synth tid uid vmlinux`) {
		all[name] = true
	}
	return all
}()

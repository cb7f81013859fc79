package perfdata

import "strings"

// Followed says whose mappings a file has.
type Followed uint8

const (
	// FollowedWhole: those that any thread of a recorded process makes.
	FollowedWhole Followed = iota
	// FollowedThreads: those that the recorded threads make. Others of their processes may make some
	// that are not in the file: perf record -t, --no-inherit and --per-thread.
	FollowedThreads
	// FollowedCPUs: those that are made on the recorded CPUs (perf record -C; newer perfs follow
	// processes on all CPUs then).
	FollowedCPUs
)

// maxArgs bounds the arguments of perf.
const maxArgs = 1 << 12

// flagMmap is set for the events that report mappings.
const flagMmap = 1 << 8

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

// Followed returns whose mappings the file has, as far as perf's arguments show.
func (f *File) Followed() Followed {
	o := recordOptions(f.args)
	switch {
	case o.cpus && !f.everyCPU():
		return FollowedCPUs
	case o.threads || o.alone && !o.all:
		return FollowedThreads
	}
	return FollowedWhole
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
type options struct{ cpus, threads, alone, all bool }

// recordOptions reads perf's arguments, up to the program that it is to run.
func recordOptions(args []string) (o options) {
	for i := 0; i < len(args); i++ {
		if args[i] == "record" {
			args = args[i+1:]
			break
		}
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		long, isLong := strings.CutPrefix(arg, "--")
		switch {
		case isLong && long == "":
			return o
		case isLong:
			name, _, valued := strings.Cut(long, "=")
			if o.long(name); !valued && longValues[name] && len(args) > 0 {
				args = args[1:]
			}
		case len(arg) > 1 && arg[0] == '-':
			if o.short(arg[1:]) && len(args) > 0 {
				args = args[1:]
			}
		default:
			return o // the program
		}
	}
	return o
}

func (o *options) long(name string) {
	switch name {
	case "cpu":
		o.cpus = true
	case "tid":
		o.threads = true
	case "no-inherit", "per-thread":
		o.alone = true
	case "all-cpus":
		o.all = true
	}
}

// short takes options of one letter each. It reports whether the next argument is the value of the
// last one.
func (o *options) short(letters string) (value bool) {
	for i, c := range letters {
		switch c {
		case 'C':
			o.cpus = true
		case 't':
			o.threads = true
		case 'i':
			o.alone = true
		case 'a':
			o.all = true
		}
		if strings.ContainsRune("CDFGcejkmoprtu", c) {
			return i == len(letters)-1
		}
	}
	return false
}

// longValues are the long options whose value can be the next argument (tools/perf/builtin-record.c).
var longValues = map[string]bool{
	"event": true, "filter": true, "pid": true, "tid": true, "realtime": true, "cpu": true, "count": true, "output": true, "freq": true,
	"mmap-pages": true, "call-graph": true, "cgroup": true, "delay": true, "uid": true, "branch-filter": true, "clockid": true,
	"proc-map-timeout": true, "switch-max-files": true, "max-size": true, "affinity": true, "num-thread-synthesize": true, "control": true,
	"synth": true, "comp-level": true, "aio-cblocks": true, "vmlinux": true, "mmap-flush": true,
}

package facts

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ustack/tracefs/privilege"
)

// Rights are ours (man 7 capabilities).
type Rights struct {
	// Known: there was a /proc/self/status to read.
	Known bool
	// User is the effective user ID.
	User int
	// Held are the capabilities we have, in effect or for package privilege;
	// Bounding are the ones that a file could give us.
	Held, Bounding privilege.Set
	// Filtered: a seccomp filter is on, which may refuse what the rights allow.
	Filtered bool
}

// Has reports whether we have a capability, by its number (unix.CAP_*).
func (r *Rights) Has(capability int) bool { return r.Held.Has(capability) }

// MayGet reports whether a file could give us a capability.
func (r *Rights) MayGet(capability int) bool { return r.Bounding.Has(capability) }

// Sysctls are settings, by their names. Settings that the kernel does not have are
// missing.
type Sysctls map[string]int

// Names of Sysctls (Documentation/admin-guide/sysctl/kernel.rst and
// LSM/Yama.rst).
const (
	PerfParanoid = "kernel.perf_event_paranoid"
	PerfMlock    = "kernel.perf_event_mlock_kb"
	PtraceScope  = "kernel.yama.ptrace_scope"
)

// Limits are soft limits (man 2 getrlimit), NoLimit if there is none, 0 if
// unknown.
type Limits struct {
	LockedMemory uint64 // bytes
	OpenFiles    uint64
}

// NoLimit is a limit that is none.
const NoLimit = math.MaxUint64

// mountPoint is where proc or sysfs is mounted.
type mountPoint string

// maxFile bounds the part of a file that is read.
const maxFile = 1 << 20

// text returns what a file has, "" if it cannot be read.
func (f mountPoint) text(name string) string {
	file, err := os.Open(filepath.Join(string(f), name))
	if err != nil {
		return ""
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return ""
	}
	return string(b)
}

// line returns the only line of a file.
func (f mountPoint) line(name string) string { return strings.TrimSpace(f.text(name)) }

// parseStatus reads /proc/self/status (man 5 proc_pid_status).
func parseStatus(text string) Rights {
	var r Rights
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "Uid": // real, effective, saved, of file systems
			if len(fields) > 1 {
				user, err := strconv.ParseUint(fields[1], 10, 32)
				r.User, r.Known = int(user), err == nil
			}
		case "CapEff":
			r.Held = mask(fields[0])
		case "CapBnd":
			r.Bounding = mask(fields[0])
		case "Seccomp":
			const filter = "2" // SECCOMP_MODE_FILTER
			r.Filtered = fields[0] == filter
		}
	}
	return r
}

func mask(s string) privilege.Set {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0
	}
	return privilege.Set(v)
}

func (f mountPoint) sysctls() Sysctls {
	s := make(Sysctls)
	for _, name := range []string{PerfParanoid, PerfMlock, PtraceScope} {
		if v, err := strconv.Atoi(f.line("sys/" + strings.ReplaceAll(name, ".", "/"))); err == nil {
			s[name] = v
		}
	}
	return s
}

// parseLimits reads /proc/self/limits (man 5 proc_pid_limits): names with
// blanks, then the soft limit.
func parseLimits(text string) Limits {
	var l Limits
	for line := range strings.Lines(text) {
		for name, to := range map[string]*uint64{"Max locked memory": &l.LockedMemory, "Max open files": &l.OpenFiles} {
			rest, found := strings.CutPrefix(line, name+" ")
			fields := strings.Fields(rest)
			if !found || len(fields) == 0 {
				continue
			}
			if v, err := strconv.ParseUint(fields[0], 10, 64); err == nil {
				*to = v
			} else if fields[0] == "unlimited" {
				*to = NoLimit
			}
		}
	}
	return l
}

// parseMemAvailable reads /proc/meminfo (man 5 proc_meminfo), KiB.
func parseMemAvailable(text string) uint64 {
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, "MemAvailable:")
		if fields := strings.Fields(rest); found && len(fields) > 0 {
			if v, err := strconv.ParseUint(fields[0], 10, 54); err == nil {
				return v
			}
		}
	}
	return 0
}

// chosen returns the word in brackets.
func chosen(line string) string {
	_, rest, _ := strings.Cut(line, "[")
	word, _, found := strings.Cut(rest, "]")
	if !found {
		return ""
	}
	return word
}

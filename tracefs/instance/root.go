package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is the tracing interface's top directory. Nothing is written there.
type Root struct {
	dir
	mkdir, rmdir func(path string) error
}

// instances is the directory in which mkdir makes an instance.
const instances = "instances"

// usual are the places where distributions mount tracefs; the second one is
// mounted by the kernel on first access (kernel/trace/trace.c,
// trace_automount).
var usual = [...]string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// mountTable is man 5 proc_pid_mountinfo.
const mountTable = "/proc/self/mountinfo"

// HelpError is an error with a remedy.
type HelpError struct {
	Err error
	// Help is one command, or the missing right.
	Help string
}

func (e *HelpError) Error() string { return e.Err.Error() + "; " + e.Help }

// Unwrap returns Err.
func (e *HelpError) Unwrap() error { return e.Err }

// ErrNoTracefs: no tracefs is mounted in the usual places.
var ErrNoTracefs = errors.New("no tracefs is mounted")

// Find returns the tracing interface: dir if that is given, else where it is
// mounted. The error names what is missing, and a remedy.
func Find(dir string) (*Root, error) { return find(dir, usual[:], mountTable) }

func find(given string, places []string, table string) (*Root, error) {
	if given != "" {
		return open(given)
	}
	var denied error
	for _, path := range places {
		switch found, err := isTracefs(path); {
		case found:
			return open(path)
		case errors.Is(err, fs.ErrPermission):
			denied = needRights("looking for tracefs in", path, err)
		}
	}
	if path := mounted(table); path != "" {
		return open(path)
	}
	if denied != nil {
		return nil, denied
	}
	return nil, &HelpError{ErrNoTracefs, "mount -t tracefs nodev " + places[0]}
}

// isTracefs asks the file system itself. Before Linux 4.1 tracing was a directory
// of debugfs.
func isTracefs(path string) (bool, error) {
	defer dir(path).raise(".").Lower()
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return err == nil && (int64(st.Type) == unix.TRACEFS_MAGIC || int64(st.Type) == unix.DEBUGFS_MAGIC), err
}

// mounted returns the first tracefs of the mount table that is one.
func mounted(table string) string {
	text, err := os.ReadFile(table)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		for _, path := range mountPoints(line) {
			if found, _ := isTracefs(path); found {
				return path
			}
		}
	}
	return ""
}

// mountPoints returns where a line of the mount table has tracefs:
//
//	ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG]... - TYPE SOURCE OPTIONS
func mountPoints(line string) []string {
	head, tail, _ := strings.Cut(line, " - ")
	kind, _, _ := strings.Cut(tail, " ")
	fields := strings.Fields(head)
	const point = 4
	if len(fields) <= point {
		return nil
	}
	path := unescape(fields[point])
	switch kind {
	case "tracefs":
		return []string{path}
	case "debugfs":
		return []string{path + "/tracing"}
	}
	return nil
}

// unescape turns \040 into a blank.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// open checks that a directory is a tracing interface.
func open(path string) (*Root, error) {
	kernels, err := isTracefs(path)
	if err != nil {
		return nil, fmt.Errorf("looking for tracefs: %w", &os.PathError{Op: "statfs", Path: path, Err: err})
	}
	r, err := at(path, kernels)
	if err == nil && !kernels {
		return nil, fmt.Errorf("looking for tracefs in %s: it is a directory of another file system", path)
	}
	return r, err
}

// At returns the tracing interface in a directory, of whatever file system.
func At(path string) (*Root, error) { return at(path, false) }

func at(path string, kernels bool) (*Root, error) {
	r := &Root{dir: dir(path), mkdir: mkdir, rmdir: unix.Rmdir}
	// A directory that has both of these is the right one.
	for _, name := range []string{availableEvents, instances} {
		err := r.stat(name)
		if errors.Is(err, fs.ErrPermission) {
			return nil, r.denied("looking into", err)
		}
		if err != nil {
			return nil, noTracefs(path, kernels, lockdown(lockdownFile), err)
		}
	}
	return r, nil
}

// noTracefs returns why a directory is no tracefs. Under lockdown the kernel makes
// no files in tracefs (tracefs_create_file in fs/tracefs/inode.c).
func noTracefs(path string, kernels bool, level string, err error) error {
	err = fmt.Errorf("looking for tracefs in %s: %w", path, err)
	switch {
	case kernels && level == confidentiality:
		return &HelpError{err, lockedDown}
	case kernels && isEmpty(path):
		return &HelpError{err, "the kernel makes no files there: it was booted with lockdown=confidentiality, or built without tracing (CONFIG_FTRACE)"}
	}
	return fmt.Errorf("%w; it is no tracefs, or the kernel is too old (Linux 3.10)", err)
}

// isEmpty reports whether a directory has nothing in it.
func isEmpty(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 0
}

// denied names the missing right. The files of tracefs belong to root, and the
// kernel asks for nothing but the rights to files, unless it is locked down
// (fs/tracefs/inode.c; man 7 kernel_lockdown).
func (r *Root) denied(doing string, err error) error { return needRights(doing, r.Path(), err) }

func needRights(doing, path string, err error) error {
	err = fmt.Errorf("%s %s: %w", doing, path, err)
	switch {
	case !errors.Is(err, unix.EPERM):
		return &HelpError{err, "it needs root or CAP_DAC_OVERRIDE"}
	case lockdown(lockdownFile) == confidentiality:
		return &HelpError{err, lockedDown}
	}
	return &HelpError{err, "the kernel is locked down (see " + lockdownFile + "), or a security module forbids it"}
}

const (
	// lockdownFile has all levels, the current one in brackets (man 7
	// kernel_lockdown). Only the highest one forbids tracefs.
	lockdownFile    = "/sys/kernel/security/lockdown"
	confidentiality = "confidentiality"
	lockedDown      = "the kernel is locked down (confidentiality) and forbids tracing until it is booted again without"
)

// lockdown returns the level, "" if it is unknown: without securityfs.
func lockdown(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	_, level := words(string(text))
	return level
}

// Path returns the directory.
func (r *Root) Path() string { return string(r.dir) }

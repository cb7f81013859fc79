package blocked

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/filemap/auxv"
	"ustack/tracefs/perf"
	"ustack/tracefs/privilege"
)

// thread is a thread by its directory in /proc: of no other one, whatever becomes of its
// number.
type thread struct {
	tid  int
	dir  int
	proc string
	// files are descriptors, and 1, of those that are open.
	files [fileCount]int
	buf   []byte // of text
}

// file is a file of a thread's directory.
type file int

const (
	statusFile file = iota
	statFile
	callFile
	auxvFile
	fileCount
)

var fileNames = [fileCount]string{"status", "stat", "syscall", "auxv"}

func (r *Reader) open(tid int) (*thread, error) {
	defer privilege.RaiseIn(r.proc).Lower()
	name := r.proc + "/" + strconv.Itoa(tid) // which a thread has that is no process, too
	dir, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, ended(&fs.PathError{Op: "open", Path: name, Err: err})
	}
	return &thread{tid: tid, dir: dir, proc: r.proc}, nil
}

func (t *thread) close() {
	for _, fd := range t.files {
		if fd > 0 {
			_ = unix.Close(fd - 1)
		}
	}
	_ = unix.Close(t.dir)
}

// ended is the error of a file of /proc, of a thread that may have ended.
func ended(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ErrEnded
	}
	return err
}

// text reads a file of the thread, as it is now. The next call writes over it.
func (t *thread) text(f file) ([]byte, error) {
	defer privilege.RaiseIn(t.proc).Lower() // the kernel asks for them when it is read
	name := fileNames[f]
	if t.files[f] == 0 {
		fd, err := unix.Openat(t.dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, ended(&fs.PathError{Op: "open", Path: name, Err: err})
		}
		t.files[f] = fd + 1
	}
	if t.buf == nil {
		t.buf = make([]byte, 16<<10) // more than any of these files has
	}
	for {
		n, err := unix.Pread(t.files[f]-1, t.buf, 0) // all that there is
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, ended(&fs.PathError{Op: "read", Path: name, Err: err})
		}
		return t.buf[:n], nil
	}
}

// status is what counts in /proc/TID/status.
type status struct {
	pid int
	// switches is how often the thread was taken off its CPU.
	switches uint64
}

func (t *thread) status() (status, error) {
	text, err := t.text(statusFile)
	if err != nil {
		return status{}, err
	}
	return parseStatus(text)
}

func parseStatus(text []byte) (s status, err error) {
	found := 0
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(bytes.TrimSpace(line)), ":")
		var n uint64
		switch name {
		case "Tgid", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			if n, err = strconv.ParseUint(strings.TrimSpace(value), 10, 64); err != nil {
				return s, fmt.Errorf("the line %.100q of status: %w", line, err)
			}
			found++
		}
		if name == "Tgid" {
			s.pid = int(n)
			continue
		}
		s.switches += n
	}
	const lines = 3
	if found != lines {
		return s, errors.New("status has no counters of context switches")
	}
	return s, nil
}

// started returns the thread's field 22 of stat.
func (t *thread) started() (uint64, error) {
	text, err := t.text(statFile)
	if err != nil {
		return 0, err
	}
	const fieldsAfter = 22 - 3 // the name, in parentheses, is field 2
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= fieldsAfter {
		return 0, fmt.Errorf("stat has %d fields", len(fields))
	}
	return strconv.ParseUint(fields[fieldsAfter], 10, 64)
}

// call is what /proc/TID/syscall has of a thread that waits (man 5 proc_pid_syscall).
type call struct {
	number int64
	args   [6]uint64
	sp, pc uint64
}

func (t *thread) call() (call, error) {
	text, err := t.text(callFile)
	if err != nil {
		return call{}, err
	}
	return parseCall(string(text))
}

func parseCall(text string) (c call, err error) {
	fields := strings.Fields(text)
	c.number = -1
	var to []*uint64
	const inCall, outside = 9, 3
	switch {
	case len(fields) == 1 && fields[0] == "running":
		return c, ErrRunning
	case len(fields) == inCall:
		for i := range c.args {
			to = append(to, &c.args[i])
		}
	case len(fields) != outside:
		return c, fmt.Errorf("syscall has %.100q", text)
	}
	if c.number, err = strconv.ParseInt(fields[0], 10, 64); err != nil {
		return c, fmt.Errorf("syscall has %.100q: %w", text, err)
	}
	for i, to := range append(to, &c.sp, &c.pc) {
		if *to, err = strconv.ParseUint(fields[1+i], 0, 64); err != nil {
			return c, fmt.Errorf("syscall has %.100q: %w", text, err)
		}
	}
	if c.sp == 0 {
		return c, ErrKernel
	}
	return c, nil
}

// arguments are the DWARF numbers of the registers that have the arguments of a system
// call (man 2 syscall).
var arguments = map[perf.Machine][6]int{
	perf.AMD64: {5, 4, 1, 10, 8, 9},
	perf.I386:  {3, 1, 2, 6, 7, 5},
	perf.ARM64: {0, 1, 2, 3, 4, 5},
	perf.ARM:   {0, 1, 2, 3, 4, 5},
}

// registers returns the known registers of a thread that waits.
func (c *call) registers(abi perf.ABI) perf.Registers {
	regs := perf.NewRegisters(runtime.GOARCH, abi, c.sp, c.pc)
	if numbers, ok := arguments[regs.Machine]; ok && c.number >= 0 {
		for i, n := range numbers {
			regs.Set(n, c.args[i])
		}
	}
	return regs
}

// abi returns what kind of program the thread's process runs, by how wide the words
// of its auxiliary vector are (man 3 getauxval).
func (t *thread) abi() (perf.ABI, error) {
	vector, err := t.text(auxvFile)
	switch {
	case err != nil:
		return 0, err
	case len(vector) == 0:
		return 0, ErrKernel
	case len(bytes.Trim(vector, "\x00")) == 0: // exec has not written it yet
		return 0, ErrRunning
	}
	switch auxv.Width(vector) {
	case 8:
		return perf.ABI64, nil
	case 4:
		return perf.ABI32, nil
	}
	return 0, errors.New("auxv has no page size")
}

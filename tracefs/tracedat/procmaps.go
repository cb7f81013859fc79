package tracedat

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"ustack/tracefs"
)

// Process is what trace-cmd record --proc-map has saved of a process, in an option
// PROCMAPS (get_pid_addr_maps and add_pid_maps in tracecmd/trace-record.c). It is
// the first 4096 bytes of each name in /proc/PID/maps, up to the first blank, and
// where that was mapped: a path with a blank is cut, and " (deleted)" is gone.
// Permissions, file offsets, devices and inodes are not saved, nor is memory
// without a name. It was read when the recording began (-P), and once more when the
// process ended if trace-cmd followed it (-F, -c): not when an event happened. The
// programs that the process had executed until then are not recorded.
type Process struct {
	// PID is the process, or the thread, that was asked for.
	PID int32
	// Exe is the whole target of /proc/PID/exe.
	Exe string
	// Ranges are in order of address and do not overlap.
	Ranges []Range
}

// Range is a mapping that had a name.
type Range struct {
	Start, End uint64 // addresses; End is the first one after
	Name       string
}

// Find returns the range that an address lies in, nil if there is none: what was
// there then is not known, for memory without a name is not saved.
func (p *Process) Find(addr uint64) *Range {
	i := sort.Search(len(p.Ranges), func(i int) bool { return p.Ranges[i].End > addr })
	if i == len(p.Ranges) || addr < p.Ranges[i].Start {
		return nil
	}
	return &p.Ranges[i]
}

// Cut reports whether a name is known to be the beginning of another one: it is
// the program's path up to a blank.
func (p *Process) Cut(name string) bool {
	rest, ok := strings.CutPrefix(p.Exe, name)
	return ok && rest != "" && strings.IndexByte(" \t\n\v\f\r", rest[0]) >= 0
}

// maxPath is more than a path has (PATH_MAX and a NUL).
const maxPath = 4097

// parseProcMap reads the text of an option PROCMAPS: a line "PID RANGES EXE" and
// for each range a line "START END NAME"; all numbers are hexadecimal. An
// error names the line, and what stands before it is returned.
func parseProcMap(text string) (Process, error) {
	body, whole := strings.CutSuffix(text, "\n")
	head, rest, _ := strings.Cut(body, "\n")
	var p Process
	pid, ranges, exe, ok := twoNumbers(head)
	if !ok || pid == 0 || pid > tracefs.MaxTID || len(exe) > maxPath {
		return p, fmt.Errorf("line 1: %.100q is not PID, number of ranges and program", head)
	}
	p.PID, p.Exe = int32(pid), exe
	line := 1
	// A path of a program can have line feeds: surplus lines belong to it.
	for n := lines(rest); n > ranges && len(p.Exe) < maxPath; n-- {
		head, rest, _ = strings.Cut(rest, "\n")
		p.Exe += "\n" + head[:min(len(head), maxPath)]
		line++
	}
	for ; rest != ""; ranges-- {
		head, rest, _ = strings.Cut(rest, "\n")
		line++
		r, err := parseRange(head)
		switch last := len(p.Ranges) - 1; {
		case ranges == 0:
			return p, fmt.Errorf("line %d: %.100q exceeds the count in line 1", line, head)
		case err != nil:
			return p, fmt.Errorf("line %d: %w", line, err)
		case last >= 0 && r.Start < p.Ranges[last].End:
			return p, fmt.Errorf("line %d: %.100q does not lie after the range before it", line, head)
		}
		p.Ranges = append(p.Ranges, r)
	}
	switch {
	case ranges > 0:
		return p, fmt.Errorf("line %d: the end, with %d ranges missing", line, ranges)
	case !whole:
		return p, fmt.Errorf("line %d: the end, in the middle of the line", line)
	}
	return p, nil
}

// lines returns how many lines a text has, the last one of which has no line
// feed.
func lines(text string) uint64 {
	if text == "" {
		return 0
	}
	return uint64(strings.Count(text, "\n")) + 1
}

func parseRange(line string) (Range, error) {
	start, end, name, ok := twoNumbers(line)
	if !ok || start >= end || len(name) > maxPath {
		return Range{}, fmt.Errorf("%.100q is not start, end and name of a mapping", line)
	}
	return Range{start, end, name}, nil
}

// twoNumbers reads two hexadecimal numbers and text, with a blank between each.
func twoNumbers(line string) (a, b uint64, text string, ok bool) {
	first, rest, _ := strings.Cut(line, " ")
	second, text, _ := strings.Cut(rest, " ")
	a, errA := strconv.ParseUint(first, 16, 64)
	b, errB := strconv.ParseUint(second, 16, 64)
	return a, b, text, errA == nil && errB == nil && text != ""
}

// maxProcMaps bounds the text of all options PROCMAPS of a file.
const maxProcMaps = 16 << 20

// Processes returns the mappings that the file has, in its order. A process that
// several instances asked for is there several times. If some cannot be read, the
// error names them, and the rest is returned.
func (f *File) Processes() ([]Process, error) {
	var out []Process
	var errs []error
	for i, text := range f.ProcMaps {
		p, err := parseProcMap(text)
		if err != nil && len(errs) < maxErrors {
			errs = append(errs, fmt.Errorf("option PROCMAPS, number %d: %w", i+1, err))
		}
		if len(p.Ranges) > 0 {
			out = append(out, p)
		}
	}
	if f.manyProcMaps {
		errs = append(errs, fmt.Errorf("more than %d bytes of options PROCMAPS", maxProcMaps))
	}
	return out, errors.Join(errs...)
}

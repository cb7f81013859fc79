package sideband

import (
	"fmt"
	"io"
	"strconv"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/escape"
)

// A log has a line for each change, in the order in which it came to light.
// Load rebuilds the history from it.
//
//	# ustack side band 2 clock=mono
//	trace TIME ID                         the trace that was saved with this has that in its head
//	vdso TIME BUILDID                     the kernel's
//	read TIME AFTER PID STARTTIME READ COMM   a reading, followed by its lines
//	 MAPPING                              what was mapped
//	layout TIME PID N                     what it had of its programs and libraries, data too, in N lines
//	seen TIME PID TID                     a thread that a reading has found
//	fork TIME PARENT CHILD
//	thread TIME PID TID
//	exec TIME PID COMM
//	loading TIME PID                      the program of that exec does not run yet
//	loaded TIME PID                       now it can
//	comm TIME PID COMM
//	map TIME PID MAPPING
//	unmap TIME PID START END              nothing is there from then on, most likely
//	unknown TIME PID START END            it is not known what is there from then on
//	share TIME PARENT CHILD               after the fork: with CLONE_VM
//	unshare TIME PID                      it has its own memory by then
//	compat TIME PID                       it has called munmap or the like as a 32-bit process
//	written TIME BUILDID NAME             since then the file may have been written
//	found TIME AFTER PID MAPPING          at an address that was asked about
//	exit TIME PID TID
//	gone TIME PID                         a reading has not found the process
//	lost TIME FROM CPU RECORDS            of the time from FROM on
//	unseen TIME FROM CPU RECORDS          only of unmapping and moving
//	whole TIME                            until here: as sure, of the unseen
//	stack TIME TID ADDR...                of an event: raw addresses, in hexadecimal, innermost first
//	nostack TIME FROM RECORDS             stacks of the time from FROM on are missing
//	sure TIME                             until here: all was read again
//	until TIME                            all that happened until then is above; the last line
//
// TIME is in seconds, with nine decimals, by the clock of the head line. So is
// AFTER: the reading proves nothing about the time before. MAPPING is
//
//	START-END PERMS OFFSET MAJ:MIN INODE GENERATION KIND BUILDID NAME
//
// with addresses, offset and device in hexadecimal, "-" for no build ID. READ is
// "all" or, if the process changed while it was read, "part", and the number of
// mappings: "all:12". COMM and NAME go to the end of the line and may be empty; they
// are as package escape writes them.

// Version 1 had no unmap, unknown, share, compat, written, unseen, whole, trace, stack,
// nostack and layout: what is unmapped or moved went unseen.

// LogMark begins the logs of all versions, logHead ours.
const (
	LogMark = "# ustack side band "
	logHead = LogMark + "2 clock="
)

// logWriter writes a log. A nil one writes nothing.
type logWriter struct {
	w   io.Writer
	buf []byte
	err error
}

// until ends the lines of a Drain, if it has written any.
func (l *logWriter) until(t tracefs.Time) {
	if l != nil && len(l.buf) > 0 {
		l.whole("until", t)
	}
}

// flush writes the pending lines. After an error nothing is written any more.
func (l *logWriter) flush() error {
	if l == nil {
		return nil
	}
	if l.err == nil && len(l.buf) > 0 {
		if _, err := l.w.Write(l.buf); err != nil {
			l.err = fmt.Errorf("logging the address spaces: %w", err)
		}
	}
	l.buf = l.buf[:0]
	return l.err
}

// line begins a line with a verb and a time, then numbers.
func (l *logWriter) line(verb string, t tracefs.Time, numbers ...int) {
	l.buf = append(append(l.buf, verb...), ' ')
	l.buf = appendTime(l.buf, t)
	for _, n := range numbers {
		l.buf = strconv.AppendInt(append(l.buf, ' '), int64(n), 10)
	}
}

func (l *logWriter) end() { l.buf = append(l.buf, '\n') }

// whole writes a line of numbers only.
func (l *logWriter) whole(verb string, t tracefs.Time, numbers ...int) {
	if l != nil {
		l.line(verb, t, numbers...)
		l.end()
	}
}

// named writes a line of a process and a name.
func (l *logWriter) named(verb string, t tracefs.Time, pid int, name string) {
	if l != nil {
		l.line(verb, t, pid)
		l.buf = escape.Append(append(l.buf, ' '), []byte(name))
		l.end()
	}
}

func (l *logWriter) fork(parent, child int, t tracefs.Time)    { l.whole("fork", t, parent, child) }
func (l *logWriter) thread(pid, tid int, t tracefs.Time)       { l.whole("thread", t, pid, tid) }
func (l *logWriter) seen(pid, tid int, t tracefs.Time)         { l.whole("seen", t, pid, tid) }
func (l *logWriter) exit(pid, tid int, t tracefs.Time)         { l.whole("exit", t, pid, tid) }
func (l *logWriter) gone(pid int, t tracefs.Time)              { l.whole("gone", t, pid) }
func (l *logWriter) compat(pid int, t tracefs.Time)            { l.whole("compat", t, pid) }
func (l *logWriter) loading(pid int, t tracefs.Time)           { l.whole("loading", t, pid) }
func (l *logWriter) loaded(pid int, t tracefs.Time)            { l.whole("loaded", t, pid) }
func (l *logWriter) sure(t tracefs.Time)                       { l.whole("sure", t) }
func (l *logWriter) exec(pid int, comm string, t tracefs.Time) { l.named("exec", t, pid, comm) }
func (l *logWriter) comm(pid int, comm string, t tracefs.Time) { l.named("comm", t, pid, comm) }

func (l *logWriter) shared(parent, child int, t tracefs.Time) { l.whole("share", t, parent, child) }
func (l *logWriter) inherits(parent, child int, t tracefs.Time) {
	l.whole("inherit", t, parent, child)
}
func (l *logWriter) unshared(pid int, t tracefs.Time) { l.whole("unshare", t, pid) }

func (l *logWriter) unmapped(pid int, start, end uint64, t tracefs.Time) {
	l.between("unmap", pid, start, end, t)
}

func (l *logWriter) unknown(pid int, start, end uint64, t tracefs.Time) {
	l.between("unknown", pid, start, end, t)
}

func (l *logWriter) between(verb string, pid int, start, end uint64, t tracefs.Time) {
	if l != nil {
		l.line(verb, t, pid)
		l.buf = strconv.AppendUint(append(l.buf, ' '), start, 16)
		l.buf = strconv.AppendUint(append(l.buf, ' '), end, 16)
		l.end()
	}
}

func (l *logWriter) written(name string, id elfid.ID, t tracefs.Time) {
	if l != nil {
		l.line("written", t)
		l.buf = id.AppendHex(append(l.buf, ' '))
		l.buf = escape.Append(append(l.buf, ' '), []byte(name))
		l.end()
	}
}

func (l *logWriter) trace(id string) {
	l.line("trace", 0)
	l.buf = append(append(l.buf, ' '), id...)
	l.end()
}

func (l *logWriter) vdso(id elfid.ID) {
	l.line("vdso", 0)
	l.buf = id.AppendHex(append(l.buf, ' '))
	l.end()
}

func (l *logWriter) mapped(pid int, m *procmap.Mapping, t tracefs.Time) {
	if l != nil {
		l.line("map", t, pid)
		l.mapping(m)
	}
}

func (l *logWriter) found(pid int, m *procmap.Mapping, t, after tracefs.Time) {
	if l != nil {
		l.line("found", t)
		l.buf = appendTime(append(l.buf, ' '), after)
		l.buf = strconv.AppendInt(append(l.buf, ' '), int64(pid), 10)
		l.mapping(m)
	}
}

func (l *logWriter) wholeAgain(t tracefs.Time) { l.whole("whole", t) }

func (l *logWriter) lost(cpu int, n uint64, from, t tracefs.Time) { l.missing("lost", cpu, n, from, t) }

func (l *logWriter) unseen(cpu int, n uint64, from, t tracefs.Time) {
	l.missing("unseen", cpu, n, from, t)
}

func (l *logWriter) missing(verb string, cpu int, n uint64, from, t tracefs.Time) {
	if l != nil {
		l.line(verb, t)
		l.buf = appendTime(append(l.buf, ' '), from)
		l.buf = strconv.AppendInt(append(l.buf, ' '), int64(cpu), 10)
		l.buf = strconv.AppendUint(append(l.buf, ' '), n, 10)
		l.end()
	}
}

func (l *logWriter) stack(tid int, addrs []uint64, t tracefs.Time) {
	if l == nil {
		return
	}
	l.line("stack", t, tid)
	for _, a := range addrs {
		l.buf = strconv.AppendUint(append(l.buf, ' '), a, 16)
	}
	l.end()
}

func (l *logWriter) loseStacks(records uint64, from, t tracefs.Time) {
	if l == nil {
		return
	}
	l.line("nostack", t)
	l.buf = appendTime(append(l.buf, ' '), from)
	l.buf = strconv.AppendUint(append(l.buf, ' '), records, 10)
	l.end()
}

func (l *logWriter) read(p *procmap.Process, part bool, t, after tracefs.Time) {
	if l == nil {
		return
	}
	l.line("read", t)
	l.buf = appendTime(append(l.buf, ' '), after)
	l.buf = strconv.AppendInt(append(l.buf, ' '), int64(p.PID), 10)
	l.buf = strconv.AppendUint(append(l.buf, ' '), p.Stat.StartTime, 10)
	how := " all:"
	if part {
		how = " part:"
	}
	l.buf = strconv.AppendInt(append(l.buf, how...), int64(len(p.Mappings)), 10)
	l.buf = escape.Append(append(l.buf, ' '), []byte(p.Stat.Comm))
	l.end()
	for i := range p.Mappings {
		l.mapping(&p.Mappings[i])
	}
}

// mapping ends a line with a mapping, after a blank.
func (l *logWriter) mapping(m *procmap.Mapping) {
	b := strconv.AppendUint(append(l.buf, ' '), m.Start, 16)
	b = strconv.AppendUint(append(b, '-'), m.End, 16)
	b = m.Perms.Append(append(b, ' '))
	b = strconv.AppendUint(append(b, ' '), m.Offset, 16)
	b = m.Dev.Append(append(b, ' '))
	b = strconv.AppendUint(append(b, ' '), m.Inode, 10)
	b = strconv.AppendUint(append(b, ' '), uint64(m.Generation), 10)
	b = append(append(b, ' '), m.Kind.String()...)
	b = append(b, ' ')
	if m.BuildID.IsZero() {
		b = append(b, '-')
	} else {
		b = m.BuildID.AppendHex(b)
	}
	l.buf = escape.Append(append(b, ' '), []byte(m.Name))
	l.end()
}

// appendTime appends a time in seconds.
func appendTime(b []byte, t tracefs.Time) []byte {
	const second = 1e9
	b = strconv.AppendInt(b, int64(t/second), 10)
	b = append(b, '.')
	for unit := tracefs.Time(second / 10); unit > 0; unit /= 10 {
		b = append(b, '0'+byte(t/unit%10))
	}
	return b
}

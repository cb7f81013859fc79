package text

import (
	"bytes"

	"ustack/tracefs"
)

// lost takes "CPU:0 [LOST 394 EVENTS]" and "CPU:0 [LOST EVENTS]" of the kernel, and
// "CPU:0 [394 EVENTS DROPPED]" and "CPU:0 [EVENTS DROPPED]" of trace-cmd report.
func (w *walk) lost(line []byte) bool {
	cpu, count, ok := parseLost(line)
	if ok {
		w.single(tracefs.KindLost, cpu, count)
	}
	return ok
}

func parseLost(line []byte) (cpu int32, count uint64, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte("CPU:"))
	if !ok {
		return 0, 0, false
	}
	v, n := parseDec(rest)
	rest, ok = bytes.CutPrefix(rest[n:], []byte(" ["))
	if n == 0 || v >= maxCPUs || !ok {
		return 0, 0, false
	}
	rest, kernel := bytes.CutPrefix(rest, []byte("LOST "))
	count, n = parseDec(rest)
	if n > 0 {
		rest, _ = bytes.CutPrefix(rest[n:], []byte(" "))
	}
	if kernel {
		return int32(v), count, string(rest) == "EVENTS]"
	}
	return int32(v), count, string(rest) == "EVENTS DROPPED]"
}

// maxCPUs is the largest NR_CPUS that Linux can be built for.
const maxCPUs = 8192

// overwritten takes the comment at the head of a trace file that says how much of
// it is gone:
//
//	# entries-in-buffer/entries-written: 3351/18660   #P:4
//
// (print_event_info in kernel/trace/trace.c). The count is over all CPUs.
func (w *walk) overwritten(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("# entries-in-buffer/entries-written: "))
	if !ok || w.s.layout != nil {
		return false
	}
	left, n := parseDec(rest)
	rest, ok = bytes.CutPrefix(rest[n:], []byte("/"))
	written, m := parseDec(rest)
	if n == 0 || m == 0 || !ok || written <= left {
		return false
	}
	w.single(tracefs.KindLost, tracefs.NoCPU, written-left)
	return true
}

// gap takes "##### CPU 1 buffer started ####" (option annotate) and
// "[LINE TOO BIG]".
func (w *walk) gap(line []byte) bool {
	if string(line) == "[LINE TOO BIG]" {
		w.single(tracefs.KindGap, tracefs.NoCPU, 0)
		return true
	}
	cpu, ok := parseBufferStart(line)
	if ok {
		w.single(tracefs.KindGap, cpu, 0)
	}
	return ok
}

func parseBufferStart(line []byte) (int32, bool) {
	rest, ok := bytes.CutPrefix(line, []byte("##### CPU "))
	if !ok {
		return 0, false
	}
	cpu, n := parseDec(rest)
	return int32(cpu), n > 0 && cpu < maxCPUs && string(rest[n:]) == " buffer started ####"
}

func isBufferStart(line []byte) bool {
	_, ok := parseBufferStart(line)
	return ok
}

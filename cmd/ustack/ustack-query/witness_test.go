package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// witness is what is known of a capture without ustack: its text, line by line, and what
// the traced program has logged of itself (render/futex/testdata/workload.c). It is made by
// the simplest means, for traces in which nothing was lost.
type witness struct {
	lines []string
	calls []call   // of futex, in the order of their entries
	log   []record // nil if the program has none
}

// call is a call of futex as the text has it. Times are in nanoseconds.
type call struct {
	tid       int64
	line, end int // end is 0 if it has not returned
	from, to  int64
	addr      string
	op, val   int64
	ret       int64
}

// record is a line of the log: what a thread did between two looks at its clock.
type record struct {
	kind     string
	addr     string
	tid      int64
	from, to int64
	result   int64
}

var (
	eventLine = regexp.MustCompile(`-(\d+) +(?:\( *[-\d]+\) +)?\[(\d+)\] \S+ +(\d+)\.(\d{6}): (.*)$`)
	futexCall = regexp.MustCompile(`^sys_futex\(uaddr: (0x[0-9a-f]+), op: (?:0x)?([0-9a-f]+), val: ([0-9a-f]+)`)
	requeued  = regexp.MustCompile(`sys_futex\(uaddr: \S+ op: 0x84, .* uaddr2: (0x[0-9a-f]+)`)
	futexBack = regexp.MustCompile(`^sys_futex -> 0x([0-9a-f]+)$`)
)

// witnessOf reads a capture. files is its directory and the names of text and log.
func witnessOf(t testing.TB, trace, log string) *witness {
	t.Helper()
	w := &witness{lines: strings.Split(string(capturetest.Read(t, trace)), "\n")}
	open := map[int64]int{}
	for i, line := range w.lines {
		m := eventLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		tid, at := number(t, m[1], 10), number(t, m[3]+m[4], 10)*1000
		if c := futexCall.FindStringSubmatch(m[5]); c != nil {
			open[tid] = len(w.calls)
			w.calls = append(w.calls, call{tid: tid, line: i + 1, from: at, addr: c[1], op: number(t, c[2], 16) & 0x7f, val: number(t, c[3], 16)})
		} else if r := futexBack.FindStringSubmatch(m[5]); r != nil {
			if n, ok := open[tid]; ok {
				u, err := strconv.ParseUint(r[1], 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				w.calls[n].end, w.calls[n].to, w.calls[n].ret = i+1, at, int64(u)
				delete(open, tid)
			}
		}
	}
	if log == "" {
		return w
	}
	for line := range strings.Lines(string(capturetest.Read(t, log))) {
		var r record
		if _, err := fmt.Sscanf(line, "%s %s %d %d %d %d", &r.kind, &r.addr, &r.tid, &r.from, &r.to, &r.result); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		w.log = append(w.log, r)
	}
	return w
}

func number(t testing.TB, text string, base int) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, base, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Operations of futex, without flags (include/uapi/linux/futex.h).
const (
	opWait       = 0
	opWake       = 1
	opRequeue    = 4
	opLockPI     = 6
	opWaitBitset = 9
)

// waits returns the calls that wait at an address, all addresses for "".
func (w *witness) waits(addr string) (list []call) {
	for _, c := range w.calls {
		if (c.op == opWait || c.op == opWaitBitset || c.op == opLockPI) && (addr == "" || c.addr == addr) {
			list = append(list, c)
		}
	}
	return list
}

// ofKind returns the records of a kind.
func (w *witness) ofKind(kind string) (list []record) {
	for _, r := range w.log {
		if r.kind == kind {
			list = append(list, r)
		}
	}
	return list
}

// agrees checks that the log is of this trace: each wait that the program has logged is the
// call of that thread in the text, within what the program saw on its clock.
func (w *witness) agrees(t *testing.T) {
	t.Helper()
	const rounded = 1000
	next := map[int64][]call{}
	for _, c := range w.waits("") {
		next[c.tid] = append(next[c.tid], c)
	}
	logged := w.ofKind("wait")
	slices.SortStableFunc(logged, func(a, b record) int { return cmp.Compare(a.from, b.from) })
	for _, r := range logged {
		list := next[r.tid]
		for len(list) > 0 && list[0].addr != r.addr { // the C library's own
			list = list[1:]
		}
		if len(list) == 0 {
			t.Fatalf("the text has no call for %+v", r)
		}
		if c := list[0]; c.from < r.from-rounded || c.to > r.to+rounded || c.ret != r.result {
			t.Errorf("the text has %+v, the log %+v", c, r)
		}
		next[r.tid] = list[1:]
	}
	if len(logged) == 0 {
		t.Error("the log has no waits")
	}
}

// contended returns the address at which most calls wait.
func (w *witness) contended() string {
	count := map[string]int{}
	best := ""
	for _, c := range w.waits("") {
		if count[c.addr]++; count[c.addr] > count[best] {
			best = c.addr
		}
	}
	return best
}

// ns is how long a call took.
func (c *call) ns() int64 { return c.to - c.from }

// slept reports whether a call waited and came back.
func (c *call) slept() bool { return c.end > 0 && c.ret != -11 }

// longest returns the call that took longest, of those that slept.
func longest(list []call) (best call) {
	for _, c := range list {
		if c.slept() && c.ns() > best.ns() {
			best = c
		}
	}
	return best
}

// total returns the time of those that slept.
func total(list []call) (sum int64) {
	for _, c := range list {
		if c.slept() {
			sum += c.ns()
		}
	}
	return sum
}

// count returns how many calls are as a function says.
func count(list []call, is func(call) bool) (n int) {
	for _, c := range list {
		if is(c) {
			n++
		}
	}
	return n
}

// byThread returns a line for each thread with a number, as the SQL does: ORDER BY tid.
func byThread(list []call, value func(call) int64) string {
	sum := map[int64]int64{}
	for _, c := range list {
		sum[c.tid] += value(c)
	}
	var lines []string
	for _, tid := range sortedKeys(sum) {
		lines = append(lines, cells(tid, sum[tid]))
	}
	return strings.Join(lines, "\n")
}

func sortedKeys[V any](m map[int64]V) []int64 {
	var keys []int64
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// cells returns a row as CSV.
func cells(values ...any) string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprint(v))
	}
	return strings.Join(list, ",")
}

// gotByWaiting returns how often each thread had waited before it held a lock, by the log.
func (w *witness) gotByWaiting() string {
	log := slices.Clone(w.log)
	slices.SortStableFunc(log, func(a, b record) int { return cmp.Compare(a.from, b.from) })
	waited, n := map[int64]bool{}, map[int64]int64{}
	for _, r := range log {
		switch r.kind {
		case "wait":
			waited[r.tid] = true
		case "hold":
			if waited[r.tid] {
				n[r.tid]++
			}
			waited[r.tid] = false
		}
	}
	var lines []string
	for _, tid := range sortedKeys(n) {
		lines = append(lines, cells(tid, n[tid]))
	}
	return strings.Join(lines, "\n")
}

// matching returns the numbers of the lines that a pattern matches.
func (w *witness) matching(pattern string) (list []int) {
	re := regexp.MustCompile(pattern)
	for i, line := range w.lines {
		if re.MatchString(line) {
			list = append(list, i+1)
		}
	}
	return list
}

// submatches returns what the first group of a pattern matches, of all lines.
func (w *witness) submatches(pattern string) (list []string) {
	re := regexp.MustCompile(pattern)
	for _, line := range w.lines {
		if m := re.FindStringSubmatch(line); m != nil {
			list = append(list, m[1])
		}
	}
	return list
}

// capturePath returns the path of a file of the captures of the whole repository.
func capturePath(parts ...string) string {
	return filepath.Join(append([]string{"../../../testdata"}, parts...)...)
}

package futex

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"ustack/render/tally"
	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/syscalls"
)

// Events of a trace that a source of sums has written: a long wait, which its stack follows, the
// sum of a futex in a time, the sum of the futexes without one in that time, a wait that has not
// ended, and the time with what the source lost in it.
const (
	eventPrefix = "ustack_futex_"
	longEvent   = eventPrefix + "wait:"
	sumEvent    = eventPrefix + "sum:"
	othersEvent = eventPrefix + "others:"
	openEvent   = eventPrefix + "open:"
	timeEvent   = eventPrefix + "time:"
)

// AppendLongWait appends the text of a long wait, without the line feed. Its time is in
// nanoseconds.
func AppendLongWait(b []byte, w *LongWait) []byte {
	b = appendFutex(append(b, longEvent...), &w.Futex)
	b = appendNumbers(b, "thread from to ret", int64(w.TID), int64(w.From), int64(w.To), w.Ret)
	return appendComm(b, string(w.Comm))
}

// AppendOpenWait appends the text of a wait that has not ended.
func AppendOpenWait(b []byte, w *OpenWait) []byte {
	b = appendFutex(append(b, openEvent...), &w.Futex)
	b = appendNumbers(b, "thread from value command timeout", int64(w.TID), int64(w.From), int64(w.Val), int64(w.Cmd), number(w.Timeout))
	return appendComm(b, w.Comm)
}

// AppendSum appends the text of the sum of a futex.
func AppendSum(b []byte, id *FutexID, c *CallSum) []byte {
	return c.append(appendFutex(append(b, sumEvent...), id))
}

// AppendOthers appends the text of the sum of all futexes that have no text of their own.
func AppendOthers(b []byte, c *CallSum) []byte { return c.append(append(b, othersEvent...)) }

// AppendSummedTime appends the text of a time that sums are of, of the length from which on waits
// have text, and of what was lost in it.
func AppendSummedTime(b []byte, from, to, minWait tracefs.Time, l *SummedLoss) []byte {
	b = appendNumbers(append(b, timeEvent...), "from to min_wait", int64(from), int64(to), int64(minWait))
	return appendNumbers(b, "missing unsent apart before missed children gone limited requeues", l.Waits, l.Records, l.Apart, l.Before, l.Missed, l.Children, l.Gone, l.Limited, l.Requeues)
}

// append appends a sum: its numbers, the classes of its durations that have some, and the name
// of its process.
func (c *CallSum) append(b []byte) []byte {
	r := &c.Results
	b = appendNumbers(b, "woken changed timed_out interrupted requeued failed", r[Woken], r[Changed], r[TimedOut], r[Interrupted], r[Requeued], r[Failed])
	b = appendNumbers(b, "wakes threads slept time zero two three owner count seen",
		c.Wakes, c.Woken, c.Slept, int64(c.Time), c.Zero, c.Two, c.Three, c.Owner, c.Count, c.seen())
	for i, n := range c.Buckets {
		if n > 0 {
			b = strconv.AppendUint(append(strconv.AppendInt(append(b, ' '), int64(i), 10), ':'), n, 10)
		}
	}
	return appendComm(b, c.Comm)
}

// marks are what some calls had, in the order of the bits of their number in text.
func (c *CallSum) marks() [9]*bool {
	return [...]*bool{&c.Plain, &c.Bitset, &c.PI, &c.Requeue, &c.Realtime, &c.Endless, &c.Timeout, &c.NoTimeout, &c.Several}
}

func (c *CallSum) seen() (bits int64) {
	for i, set := range c.marks() {
		bits |= number(*set) << i
	}
	return bits
}

func number(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// appendFutex appends a futex.
func appendFutex(b []byte, id *FutexID) []byte {
	b = strconv.AppendUint(append(b, " futex=0x"...), id.Addr, 16)
	b = strconv.AppendUint(append(b, " memory="...), id.Memory, 16)
	return appendNumbers(b, "born process shared", int64(id.Born), int64(id.TGID), number(id.Shared))
}

// appendNumbers appends numbers with their names.
func appendNumbers(b []byte, names string, numbers ...int64) []byte {
	for _, n := range numbers {
		name, rest, _ := strings.Cut(names, " ")
		b = strconv.AppendInt(append(append(append(b, ' '), name...), '='), n, 10)
		names = rest
	}
	return b
}

// appendComm appends the name of a thread or process, which ends the line.
func appendComm(b []byte, comm string) []byte {
	return escape.Append(append(b, " comm="...), []byte(comm))
}

// summedLine is a line as it is read.
type summedLine struct {
	rest []byte
	ok   bool
}

// numbers reads numbers with any names.
func (l *summedLine) numbers(to ...*int64) {
	for _, n := range to {
		word, rest, _ := bytes.Cut(bytes.TrimPrefix(l.rest, []byte{' '}), []byte{' '})
		_, digits, ok := bytes.Cut(word, []byte{'='})
		v, err := strconv.ParseInt(string(digits), 0, 64)
		l.ok = l.ok && ok && err == nil
		*n, l.rest = v, rest
	}
}

// futex reads a futex.
func (l *summedLine) futex() (id FutexID) {
	word := func(name string, base int) (v uint64) {
		text, rest, _ := bytes.Cut(bytes.TrimPrefix(l.rest, []byte{' '}), []byte{' '})
		digits, ok := bytes.CutPrefix(text, []byte(name))
		v, err := strconv.ParseUint(string(digits), base, 64)
		l.ok = l.ok && ok && err == nil
		l.rest = rest
		return v
	}
	id.Addr, id.Memory = word("futex=0x", 16), word("memory=", 16)
	var born, process, shared int64
	l.numbers(&born, &process, &shared)
	id.Born, id.TGID, id.Shared = uint64(born), int32(process), shared != 0
	l.ok = l.ok && process > 0 && process == int64(id.TGID)
	return id
}

// comm reads the name at the end of a line.
func (l *summedLine) comm() string {
	name, ok := bytes.CutPrefix(bytes.TrimPrefix(l.rest, []byte{' '}), []byte("comm="))
	const most = 4 * 16 // escaped
	l.ok = l.ok && ok && len(name) <= most
	return string(escape.Undo(name))
}

// counts reads counts, which are not negative.
func (l *summedLine) counts(to ...*int64) {
	l.numbers(to...)
	for _, n := range to {
		l.ok = l.ok && *n >= 0
	}
}

// sum reads a sum.
func (l *summedLine) sum() (c CallSum) {
	var time, seen int64
	r := &c.Results
	l.counts(&r[Woken], &r[Changed], &r[TimedOut], &r[Interrupted], &r[Requeued], &r[Failed])
	l.counts(&c.Wakes, &c.Woken, &c.Slept, &time, &c.Zero, &c.Two, &c.Three, &c.Owner, &c.Count, &seen)
	c.Time = tracefs.Time(time)
	for i, set := range c.marks() {
		*set = seen>>i&1 != 0
	}
	l.buckets(&c)
	c.Comm = l.comm()
	return c
}

// mostBuckets bounds the classes of durations: 64 bits have no more.
const mostBuckets = 64

// buckets reads the classes of durations.
func (l *summedLine) buckets(c *CallSum) {
	for l.ok {
		word, rest, _ := bytes.Cut(bytes.TrimPrefix(l.rest, []byte{' '}), []byte{' '})
		if bytes.IndexByte(word, '=') >= 0 || len(word) == 0 {
			return
		}
		class, count, _ := bytes.Cut(word, []byte{':'})
		i, err := strconv.ParseUint(string(class), 10, 8)
		n, cerr := strconv.ParseInt(string(count), 10, 64)
		if err != nil || cerr != nil || n < 0 || i >= mostBuckets {
			l.ok = false
			return
		}
		if need := int(i) + 1 - len(c.Buckets); need > 0 {
			c.Buckets = append(c.Buckets, slices.Repeat([]uint64{0}, need)...)
		}
		c.Buckets[i] = uint64(tally.Plus(int64(c.Buckets[i]), n))
		l.rest = rest
	}
}

// open reads a wait that has not ended.
func (l *summedLine) open() (w OpenWait) {
	w.Futex = l.futex()
	var tid, from, val, cmd, timeout int64
	l.counts(&tid, &from, &val, &cmd, &timeout)
	l.ok = l.ok && tid > 0 && tid == int64(int32(tid)) && val == int64(uint32(val)) && cmd <= int64(syscalls.Unknown)
	w.TID, w.From, w.Val, w.Cmd, w.Timeout = int32(tid), tracefs.Time(from), uint32(val), syscalls.Cmd(cmd), timeout != 0
	w.Comm = l.comm()
	return w
}

// long reads a long wait.
func (l *summedLine) long() (w LongWait) {
	w.Futex = l.futex()
	var tid, from, to int64
	l.counts(&tid, &from, &to)
	l.numbers(&w.Ret)
	l.ok = l.ok && tid > 0 && tid == int64(int32(tid)) && from <= to
	w.TID, w.From, w.To = int32(tid), tracefs.Time(from), tracefs.Time(to)
	w.Comm = []byte(l.comm())
	return w
}

package recorder

import (
	"cmp"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/render/cause"
	"ustack/render/futex"
	"ustack/render/record"
	"ustack/tracefs"
	"ustack/tracefs/escape"
)

// Sums is a flight recorder of a source that counts futex calls and shows long waits
// (futex.Summed): it keeps them as text, which futex and replay read.
//
// Invariants: the sums of a time come after its waits, so that a report has the sums of all waits
// that it shows; the time of lines never goes back; a minute takes no more than perMinute, but
// for one chunk of the ring and waits that set off a report.
type Sums struct {
	flight
	Unwinds bool // stacks are unwound from copies: to be set before Begin
	asked   chan os.Signal
	waits   int64   // so long that a wait sets off a report, in ns; 0 for none
	times   float64 // or so many times the 99th percentile of its futex; 0 for none
	losses  bool    // a loss does
	minWait tracefs.Time

	at     tracefs.Time // of the last line
	from   tracefs.Time // of the sums that come next
	known  map[futex.FutexID]*futex.CallSum
	others futex.CallSum // of the futexes without a line, so far
	gone   futex.CallSum // of futexes that are no longer counted by themselves, since the last sums
	loss   futex.SummedLoss
	minute minute
	totals resolve.Totals
	line   []byte
	starts []byte
}

// minute bounds what is kept in a minute.
type minute struct {
	begun   time.Time
	taken   int64 // by the ring before
	limited int64 // waits that were left out, ever
}

const (
	// perMinute is how many bytes, compressed, may be kept in a minute, and sumsShare how
	// many of them are for sums.
	perMinute = 200 << 10
	sumsShare = 80 << 10
	// mostSums is how many futexes have a line of their own at a time, those with the most
	// waiting; SumsEvery is how often there are sums.
	mostSums  = 256
	SumsEvery = 10 * time.Second
)

// NewSums returns a recorder of waits of a minimum length, and how long they are at least: less
// if a trigger needs shorter ones. now is the time.
func NewSums(opt Options, ropt RingOptions, minWait time.Duration, now func() time.Time) (*Sums, time.Duration, error) {
	o := &Sums{flight: flight{opt: opt, ropt: ropt, now: now}, asked: make(chan os.Signal, 1), known: make(map[futex.FutexID]*futex.CallSum)}
	for _, t := range ropt.Triggers {
		if t.Event != "" || t.Deadlock {
			return nil, 0, fmt.Errorf("--trigger %v: --source=bpf sees long waits and sums only: --trigger 'futex-wait>TIME', 'futex-wait>Np99', loss or signal", t)
		}
		if t.Times > 0 && (o.times == 0 || t.Times < o.times) {
			o.times = t.Times
		}
		o.losses = o.losses || t.Loss
		if t.Wait > 0 && (o.waits == 0 || int64(t.Wait) < o.waits) {
			o.waits = int64(t.Wait)
		}
	}
	if opt.Redactor != nil {
		return nil, 0, fmt.Errorf("--redact cannot be combined with --source=bpf: its lines cannot be redacted")
	}
	if o.waits > 0 {
		minWait = min(minWait, time.Duration(o.waits))
	}
	o.minWait = tracefs.Time(minWait)
	signal.Notify(o.asked, syscall.SIGUSR1) // one that comes early must not end the process
	return o, minWait, nil
}

// Begin begins to record at a time.
func (o *Sums) Begin(at tracefs.Time) error {
	if err := o.open(); err != nil {
		return err
	}
	o.from, o.at, o.minute.begun = at, at, o.now()
	o.head = o.fields(at)
	return nil
}

// fields returns the contents of a report's head.
func (o *Sums) fields(at tracefs.Time) []record.Field {
	wall := o.now()
	return record.FieldsOf("ustack", o.opt.Version, "kernel", live.Release(), "boot_id", procmap.BootID(o.opt.Proc), "os", osName(osRelease),
		"clock", live.Clock, "clock_offset_ns", strconv.FormatInt(wall.UnixNano()-int64(at), 10), "begun", wall.UTC().Format(time.RFC3339Nano),
		"stacks", o.stacks(), "mappings", "after each wait", "events", "waits of "+time.Duration(o.minWait).String()+" and more, sums of all")
}

// stacks says how stacks are found.
func (o *Sums) stacks() string {
	if o.Unwinds {
		return "BPF, unwound from copies, else build IDs by the kernel"
	}
	return "BPF, build IDs by the kernel"
}

// Wait takes a wait.
func (o *Sums) Wait(w *futex.LongWait) error {
	took := w.To - w.From
	why := o.long(w.Futex, took)
	fires := why != ""
	if fires {
		o.trigger(why, causeOf(w))
	}
	if !fires && o.spent() {
		o.minute.limited++
		return nil
	}
	o.count(w.Stack)
	return o.event(w.Comm, w.TID, w.To, futex.AppendLongWait(o.line[:0], w), w.Stack)
}

// causeOf returns the cause of a wait, as far as it has a stack: what let the thread go on is not
// known.
func causeOf(w *futex.LongWait) *cause.Cause {
	if w.Stack == nil {
		return nil
	}
	frames, ok := cause.AppendStack(nil, w.Stack.Text, w.Stack.Frames, w.Stack.Attributions)
	if c := (&cause.Cause{Waiter: frames}); ok && c.Certain() {
		return c
	}
	return nil
}

// long returns which trigger a wait is, "" for none.
func (o *Sums) long(id futex.FutexID, took tracefs.Time) string {
	if o.waits > 0 && int64(took) > o.waits {
		return record.Trigger{Wait: time.Duration(o.waits)}.Why(took, 0)
	}
	if o.times == 0 {
		return ""
	}
	usual := o.before(id).P99()
	if usual == 0 || float64(took) <= o.times*float64(usual) {
		return ""
	}
	return record.Trigger{Times: o.times}.Why(took, usual)
}

// spent reports whether waits have taken what they may take in this minute.
func (o *Sums) spent() bool {
	if now := o.now(); now.Sub(o.minute.begun) >= time.Minute {
		o.minute.begun, o.minute.taken = now, o.ring.Taken()
	}
	return o.ring.Taken()-o.minute.taken > perMinute-sumsShare
}

// count counts a stack in the totals.
func (o *Sums) count(s *resolve.Stack) {
	if s == nil {
		return
	}
	o.totals.Stacks++
	for i := range s.Attributions {
		a := &s.Attributions[i]
		o.totals.Frames++
		if a.File != nil {
			o.totals.Trusts[a.Trust]++
		} else {
			o.totals.Reasons[a.Reason]++
		}
	}
}

// event writes a line, and its stack.
func (o *Sums) event(comm []byte, tid int32, at tracefs.Time, body []byte, s *resolve.Stack) error {
	o.line = body
	o.at = max(o.at, at)
	o.totals.Events++
	o.ring.At(o.at)
	const perSecond, perMicro, width = 1e9, 1000, 16
	name := escape.Append(nil, comm)
	o.starts = fmt.Appendf(o.starts[:0], "%*s%s-%-7d [000] ..... %5d.%06d: ", max(0, width-len(comm)), "", name, tid, o.at/perSecond, o.at%perSecond/perMicro)
	return o.text.Event(o.starts, body, s)
}

// own writes a line of ours.
func (o *Sums) own(body []byte) error {
	return o.event([]byte("ustack"), int32(os.Getpid()), o.at, body, nil)
}

// Gone notes that a futex is no longer counted by itself, with its last sum.
func (o *Sums) Gone(id futex.FutexID, c *futex.CallSum) {
	d, _ := c.Since(o.before(id))
	o.gone.Add(&d)
	delete(o.known, id)
}

// before returns the sum of a futex when sums were written last.
func (o *Sums) before(id futex.FutexID) *futex.CallSum {
	if c := o.known[id]; c != nil {
		return c
	}
	return new(futex.CallSum)
}

// Known returns the sums of the futexes that were written last, which are not to be changed: the
// next ones may be the same.
func (o *Sums) Known() map[futex.FutexID]*futex.CallSum { return o.known }

// row is a futex with calls since the last sums.
type row struct {
	id    futex.FutexID
	since futex.CallSum
	calls int64
}

// Sums writes what has been counted since the last time.
func (o *Sums) Sums(st *futex.SummedState) error {
	rows := o.changed(st)
	rest, some := o.rest(&st.Others)
	loss := st.Loss.Since(&o.loss)
	loss.Limited = o.minute.limited - o.loss.Limited
	if counted := loss; o.losses {
		// Gone and Apart bound what has a row of its own, Limited what is kept: nothing is lost.
		// Waits that began before the recording are no loss either; those of which the beginning is
		// lost are counted as Waits or Missed, too.
		counted.Gone, counted.Apart, counted.Limited, counted.Before = 0, 0, 0, 0
		if counted != (futex.SummedLoss{}) {
			o.trigger(record.Trigger{Loss: true}.String(), nil)
		}
	}
	o.loss = st.Loss
	o.loss.Limited = o.minute.limited
	for i := mostSums; i < len(rows); i++ {
		rest.Add(&rows[i].since)
		loss.Apart += rows[i].calls
		some = true
	}
	o.at = max(o.at, st.End)
	if err := o.own(futex.AppendSummedTime(o.line[:0], o.from, max(o.from, st.End), o.minWait, &loss)); err != nil {
		return err
	}
	o.from = max(o.from, st.End)
	for i := range min(len(rows), mostSums) {
		if err := o.own(futex.AppendSum(o.line[:0], &rows[i].id, &rows[i].since)); err != nil {
			return err
		}
	}
	if !some {
		return nil
	}
	return o.own(futex.AppendOthers(o.line[:0], &rest))
}

// changed returns the futexes with calls since the last sums, those with the most waiting first,
// and remembers what was counted.
func (o *Sums) changed(st *futex.SummedState) (rows []row) {
	for id, c := range st.Sums {
		before := o.before(id)
		if c == before || c.Equal(before) {
			continue
		}
		d, calls := c.Since(before) // 0 calls, if the last one was counted in part
		rows = append(rows, row{id, d, calls})
	}
	o.known = st.Sums
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.since.Time, a.since.Time), cmp.Compare(b.calls, a.calls), cmp.Compare(a.id.TGID, b.id.TGID), cmp.Compare(a.id.Addr, b.id.Addr), cmp.Compare(a.id.Memory, b.id.Memory))
	})
	return rows
}

// rest returns the sum, since the last sums, of the futexes without a line of their own, if there
// is one.
func (o *Sums) rest(others *futex.CallSum) (d futex.CallSum, some bool) {
	some = !others.Equal(&o.others) || !o.gone.Equal(new(futex.CallSum))
	d, _ = others.Since(&o.others)
	o.others = *others
	d.Add(&o.gone)
	o.gone = futex.CallSum{}
	return d, some
}

// Step does what is due; state is called before a report, for the sums until then. It is done
// after the last report.
func (o *Sums) Step(state func() (*futex.SummedState, error)) (done bool, err error) {
	o.look()
	if !o.isDue() {
		return false, nil
	}
	if err := o.report(state); err != nil {
		return false, err
	}
	return o.last(), nil
}

// look looks whether a user has asked for a report.
func (o *Sums) look() {
	select {
	case <-o.asked:
		o.trigger(askedFor, nil)
	default:
	}
}

// report writes a report: the sums until now, and the waits that have not ended, are its last
// lines.
func (o *Sums) report(state func() (*futex.SummedState, error)) error {
	st, err := state()
	if err != nil {
		return err
	}
	if err := o.Sums(st); err != nil {
		return err
	}
	for i := range st.Open {
		if err := o.own(futex.AppendOpenWait(o.line[:0], &st.Open[i])); err != nil {
			return err
		}
	}
	return o.write(&o.totals)
}

// Close writes what is kept at the end, if it is a report.
func (o *Sums) Close(state func() (*futex.SummedState, error)) error {
	o.look()
	if !o.atEnd() {
		return nil
	}
	return o.report(state)
}

// End ends the recorder.
func (o *Sums) End() { signal.Stop(o.asked) }

// Kept returns how many bytes, compressed, were kept so far.
func (o *Sums) Kept() int64 { return o.ring.Taken() }

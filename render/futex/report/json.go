package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/futex"
	"ustack/tracefs"
)

// Schema names the form of the JSON document. The number changes when a
// program that reads it would have to change; new keys do not change it.
const Schema = "ustack.futex/1"

// document is the whole JSON document. Keys that end in _ns are nanoseconds,
// or ticks of the trace's clock if time_unit says so.
type document struct {
	Schema       string        `json:"schema"`
	TimeUnit     string        `json:"time_unit"`
	Start        tracefs.Time  `json:"start_ns"`
	End          tracefs.Time  `json:"end_ns"`
	Calls        int64         `json:"calls"`
	Contended    sumJSON       `json:"contended"`
	Signalled    sumJSON       `json:"not_locks"`
	All          sumJSON       `json:"all"`
	LockCount    int           `json:"locks_total"`
	Locks        []lockJSON    `json:"locks"`
	OtherLocks   *lockJSON     `json:"locks_others,omitempty"`
	SignalCount  int           `json:"condvars_total"`
	Condvars     []lockJSON    `json:"condvars"`
	OtherSignals *lockJSON     `json:"condvars_others,omitempty"`
	Blocked      []blockedJSON `json:"blocked"`
	Longest      []waitJSON    `json:"longest"`
	ThreadCount  int           `json:"threads_total"`
	Threads      []threadJSON  `json:"threads"`
	ThreadRest   *restJSON     `json:"threads_others,omitempty"`
	Before       beforeJSON    `json:"began_before"`
	Waitv        waitvJSON     `json:"waitv"`
	NoReturn     int64         `json:"no_return"`
	Verdict      verdictJSON   `json:"verdict"`
	Loss         lossJSON      `json:"loss"`
	Reach        *reachJSON    `json:"stacks,omitempty"`
	Notes        []string      `json:"notes"`
}

type reachJSON struct {
	Waits       int64  `json:"waits"`
	Unwound     int64  `json:"unwound"`
	Application int64  `json:"application"`
	Root        int64  `json:"root"`
	End         string `json:"others_end_in,omitempty"`
}

type sumJSON struct {
	Waits int64        `json:"waits"`
	Total tracefs.Time `json:"total_ns"`
	Open  tracefs.Time `json:"blocked_ns"`
	boundsJSON
}

// boundsJSON are the bounds of total and blocked together; absent if there are
// none.
type boundsJSON struct {
	Low  *tracefs.Time `json:"low_ns,omitempty"`
	High *tracefs.Time `json:"high_ns,omitempty"`
}

type processJSON struct {
	TGID    *int32  `json:"tgid,omitempty"`
	Known   string  `json:"known_by"`
	Comm    string  `json:"comm"`
	Threads int     `json:"threads"`
	TIDs    []int32 `json:"tids"`
}

type lockJSON struct {
	Address string `json:"address,omitempty"`
	Shared  bool   `json:"shared"`
	File    string `json:"file,omitempty"`
	Offset  string `json:"offset,omitempty"`
	symbolJSON
	Process     *processJSON  `json:"process,omitempty"`
	Kind        string        `json:"kind"`
	Waits       int64         `json:"waits"`
	Woken       int64         `json:"woken"`
	Changed     int64         `json:"changed"`
	TimedOut    int64         `json:"timed_out"`
	Interrupted int64         `json:"interrupted"`
	Requeued    int64         `json:"requeued"`
	Failed      int64         `json:"failed"`
	NoReturn    int64         `json:"no_return"`
	Open        int64         `json:"open"`
	Total       tracefs.Time  `json:"total_ns"`
	OpenTime    tracefs.Time  `json:"blocked_ns"`
	Bounds      boundsJSON    `json:"bounds"`
	Mean        tracefs.Time  `json:"mean_ns"`
	P50         tracefs.Time  `json:"p50_ns"`
	P99         tracefs.Time  `json:"p99_ns"`
	Max         tracefs.Time  `json:"max_ns"`
	Histogram   []bucketJSON  `json:"histogram"`
	WaitStacks  []stackJSON   `json:"wait_stacks"`
	Wakers      []stackJSON   `json:"wakers"`
	Flows       []flowJSON    `json:"flows"`
	Waiters     []threadJSON  `json:"waiter_threads"`
	WakerTIDs   []threadJSON  `json:"waker_threads"`
	Holders     []threadJSON  `json:"holder_threads"`
	Owners      []ownerJSON   `json:"owners,omitempty"`
	More        int64         `json:"not_kept_apart,omitempty"`
	MoreTime    *tracefs.Time `json:"not_kept_apart_ns,omitempty"`
	Longest     *waitJSON     `json:"longest,omitempty"`
	Partial     bool          `json:"partial,omitempty"`
}

// symbolJSON is the static variable that a lock is in.
type symbolJSON struct {
	Symbol string `json:"symbol,omitempty"`
	Path   string `json:"symbol_path,omitempty"`
	Trust  string `json:"symbol_trust,omitempty"`
	Source string `json:"symbol_source,omitempty"`
}

type bucketJSON struct {
	From  tracefs.Time `json:"from_ns"`
	Count int64        `json:"count"`
}

type stackJSON struct {
	Frames []frameJSON  `json:"stack,omitempty"`
	Cut    bool         `json:"stack_truncated,omitempty"`
	End    string       `json:"stack_end,omitempty"`
	None   string       `json:"no_stack,omitempty"`
	Count  int64        `json:"count"`
	Time   tracefs.Time `json:"total_ns"`
	Share  float64      `json:"share"`
}

// flowJSON has the places of its stacks in wait_stacks and wakers.
type flowJSON struct {
	Wait  int          `json:"wait_stack"`
	Wake  int          `json:"waker"`
	Count int64        `json:"count"`
	Time  tracefs.Time `json:"total_ns"`
}

// frameJSON is a frame as replay's JSON has it.
type frameJSON struct {
	Offset  string `json:"offset,omitempty"`
	Path    string `json:"path,omitempty"`
	BuildID string `json:"build_id,omitempty"`
	Trust   string `json:"trust,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Address string `json:"address,omitempty"`
	// Inferred marks a function that the kernel gave no frame of.
	Inferred bool `json:"inferred,omitempty"`
	// How it was found, if ustack has unwound the stack.
	How string `json:"how,omitempty"`
	// As in the lines of replay: the offset in a mapping, and its name.
	VMAOffset string `json:"vma_offset,omitempty"`
	Text      string `json:"text,omitempty"`

	// With symbols, as in the lines of replay.
	Function       string     `json:"function,omitempty"`
	FunctionOffset string     `json:"function_offset,omitempty"`
	File           string     `json:"file,omitempty"`
	Line           int        `json:"line,omitempty"`
	Inlined        []callJSON `json:"inlined,omitempty"`
	Source         string     `json:"symbol_source,omitempty"`
	NoSymbol       string     `json:"no_function,omitempty"`
}

type callJSON struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
}

// named puts a function into a frame.
func (f *frameJSON) named(n *symbol.Name) {
	switch {
	case n == nil:
		return
	case n.Reason != symbol.NoReason:
		f.NoSymbol = n.Reason.String()
		return
	}
	f.Function, f.Source = clean(n.Function), n.Source.String()
	if f.Inferred {
		return
	}
	f.FunctionOffset = hex(n.Offset)
	f.File, f.Line = clean(n.File), n.Line
	for _, in := range n.Inlined {
		f.Inlined = append(f.Inlined, callJSON{clean(in.Function), clean(in.File), in.Line})
	}
}

type threadJSON struct {
	TID   int32        `json:"tid"`
	Comm  string       `json:"comm"`
	Count int64        `json:"count"`
	Time  tracefs.Time `json:"total_ns"`
}

// restJSON is of threads that were too many to keep apart.
type restJSON struct {
	Count int64        `json:"count"`
	Time  tracefs.Time `json:"total_ns"`
}

// ownerJSON is who held a lock, Count times of those that its memory was read.
type ownerJSON struct {
	TID   int32  `json:"tid"`
	Comm  string `json:"comm"`
	Count int64  `json:"count"`
}

type blockedJSON struct {
	TID       int32         `json:"tid"`
	Comm      string        `json:"comm"`
	Address   string        `json:"address,omitempty"`
	Kind      string        `json:"kind,omitempty"`
	Since     tracefs.Time  `json:"since_ns"`
	Time      tracefs.Time  `json:"at_least_ns"`
	Stack     []frameJSON   `json:"stack,omitempty"`
	NoStack   string        `json:"no_stack,omitempty"`
	Owner     int32         `json:"owner,omitempty"`
	OwnedFrom *tracefs.Time `json:"owned_from_ns,omitempty"`
	OwnerDead bool          `json:"owner_exited,omitempty"`
	OwnerRead bool          `json:"owner_from_memory,omitempty"`
	Doubt     bool          `json:"end_may_be_lost,omitempty"`
}

type waitJSON struct {
	TID        int32         `json:"tid"`
	Comm       string        `json:"comm"`
	Address    string        `json:"address"`
	From       tracefs.Time  `json:"from_ns"`
	Time       tracefs.Time  `json:"time_ns"`
	Result     string        `json:"result"`
	Stack      []frameJSON   `json:"stack,omitempty"`
	Waker      int32         `json:"waker,omitempty"`
	WakerComm  string        `json:"waker_comm,omitempty"`
	WakerSure  bool          `json:"waker_sure"`
	WakerStack []frameJSON   `json:"waker_stack,omitempty"`
	Holder     int32         `json:"holder,omitempty"`
	Confidence string        `json:"holder_confidence,omitempty"`
	Share      float64       `json:"holder_share,omitempty"`
	Why        string        `json:"holder_doubt,omitempty"`
	Segments   []segmentJSON `json:"evidence,omitempty"`
}

type segmentJSON struct {
	TID  int32        `json:"let_go_by"`
	From tracefs.Time `json:"from_ns"`
	To   tracefs.Time `json:"to_ns"`
}

// beforeJSON has lower bounds; upper ones if records were lost, as the calls may
// have begun there.
type beforeJSON struct {
	Waits          int64         `json:"waits"`
	AtLeast        *tracefs.Time `json:"at_least_ns,omitempty"`
	AtMost         *tracefs.Time `json:"at_most_ns,omitempty"`
	Unclear        int64         `json:"unclear"`
	UnclearAtLeast *tracefs.Time `json:"unclear_at_least_ns,omitempty"`
	UnclearAtMost  *tracefs.Time `json:"unclear_at_most_ns,omitempty"`
}

func beforeOf(r *futex.Report) beforeJSON {
	b := &r.Before
	if r.Loss.Any() {
		return beforeJSON{Waits: b.Waits, AtMost: &b.Time, Unclear: b.Unclear, UnclearAtMost: &b.UnclearTime}
	}
	return beforeJSON{Waits: b.Waits, AtLeast: &b.Time, Unclear: b.Unclear, UnclearAtLeast: &b.UnclearTime}
}

type waitvJSON struct {
	Waits int64        `json:"waits"`
	Total tracefs.Time `json:"total_ns"`
}

type verdictJSON struct {
	Kind       string   `json:"kind"`
	Confidence string   `json:"confidence,omitempty"`
	Text       string   `json:"text"`
	Evidence   []string `json:"evidence"`
}

type lossJSON struct {
	Gaps      int64         `json:"gaps"`
	Records   uint64        `json:"records"`
	Unknown   bool          `json:"more,omitempty"`
	Refused   uint64        `json:"refused"`
	Bounded   bool          `json:"bounded"`
	Unseen    *tracefs.Time `json:"unseen_threads_ns,omitempty"`
	Forgotten int64         `json:"threads_forgotten"`
}

// JSON writes a report as one document.
func JSON(w io.Writer, r *futex.Report) error {
	unit := "ns"
	if r.Ticks {
		unit = "ticks"
	}
	d := document{
		Schema: Schema, TimeUnit: unit, Start: r.Start, End: r.End, Calls: r.Calls,
		Contended: sumOf(&r.Contended, r), Signalled: sumOf(&r.Signalled, r), All: sumOf(&r.All, r),
		LockCount: r.LockCount, Locks: locksOf(r.Locks, r), SignalCount: r.SignalCount, Condvars: locksOf(r.Signals, r),
		Blocked: []blockedJSON{}, Longest: []waitJSON{}, ThreadCount: r.ThreadCount, Threads: threadsOf(r.Threads),
		Before:   beforeOf(r),
		Waitv:    waitvJSON{r.Waitv.Waits, r.Waitv.Time},
		NoReturn: r.NoReturn, Notes: append([]string{}, r.Notes...),
		Verdict: verdictJSON{Kind: r.Verdict.Kind.String(), Text: r.Verdict.Text, Evidence: append([]string{}, r.Verdict.Evidence...)},
		Loss:    lossJSON{Gaps: r.Loss.Gaps, Records: r.Loss.Records, Unknown: r.Loss.Unknown, Refused: r.Loss.Refused, Bounded: r.Loss.Bounded, Forgotten: r.Loss.Forgotten},
	}
	if x := r.Reach; x != nil {
		d.Reach = &reachJSON{x.Waits, x.Unwound, x.Application, x.Root, clean(x.End)}
	}
	if r.Verdict.Kind != futex.NoLockUp {
		d.Verdict.Confidence = confidence(r.Verdict.Sure)
	}
	if r.Loss.Unseen >= 0 {
		d.Loss.Unseen = &r.Loss.Unseen
	}
	if r.OtherLocks != nil {
		x := lockOf(r.OtherLocks, r)
		d.OtherLocks = &x
	}
	if r.OtherSignals != nil {
		x := lockOf(r.OtherSignals, r)
		d.OtherSignals = &x
	}
	if rest := r.ThreadRest; rest.Count > 0 {
		d.ThreadRest = &restJSON{rest.Count, rest.Time}
	}
	for _, b := range r.Blocked {
		d.Blocked = append(d.Blocked, blockedOf(b))
	}
	for _, x := range r.Longest {
		d.Longest = append(d.Longest, waitOf(x))
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(&d)
}

func confidence(sure bool) string {
	if sure {
		return "high"
	}
	return "low"
}

func hex(v uint64) string { return fmt.Sprintf("%#x", v) }

// clean makes valid UTF-8 of the kernel's bytes; control characters are
// escaped by the encoder.
func clean(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func boundsOf(s *futex.Sum, r *futex.Report) boundsJSON {
	if !r.Loss.Bounded {
		return boundsJSON{}
	}
	return boundsJSON{&s.Low, &s.High}
}

func sumOf(s *futex.Sum, r *futex.Report) sumJSON {
	return sumJSON{s.Waits, s.Time, s.OpenTime, boundsOf(s, r)}
}

func locksOf(list []*futex.Lock, r *futex.Report) []lockJSON {
	out := []lockJSON{}
	for _, l := range list {
		out = append(out, lockOf(l, r))
	}
	return out
}

func lockOf(l *futex.Lock, r *futex.Report) lockJSON {
	n := &l.Results
	out := lockJSON{
		Shared: l.Shared && !l.Local, File: clean(l.File), Kind: l.Kind.String(), Waits: l.Waits,
		Woken: n[futex.Woken], Changed: n[futex.Changed], TimedOut: n[futex.TimedOut], Interrupted: n[futex.Interrupted],
		Requeued: n[futex.Requeued], Failed: n[futex.Failed], NoReturn: n[futex.NoReturn], Open: n[futex.Open],
		Total: l.Time, OpenTime: l.OpenTime, Bounds: boundsOf(&l.Sum, r), Mean: l.Mean, P50: l.P50, P99: l.P99, Max: l.Max,
		Histogram: []bucketJSON{}, WaitStacks: stacksOf(l.WaitStacks, l.Time), Wakers: stacksOf(l.Wakers, l.Time), Flows: []flowJSON{},
		Waiters: threadsOf(l.Waiters), WakerTIDs: threadsOf(l.WakerTIDs), Holders: threadsOf(l.Holders), Owners: ownersOf(l.Owners), Partial: l.Partial,
	}
	if most := l.Rest.Most(); most.Count > 0 {
		out.More, out.MoreTime = most.Count, &most.Time
	}
	if l.File != "" {
		out.Offset = hex(l.Offset)
	}
	if v := l.Variable; v != nil {
		out.symbolJSON = symbolJSON{clean(v.String()), clean(v.File.Path), l.VariableTrust.String(), v.Source.String()}
	}
	if p := l.Process; p != nil {
		out.Address = hex(l.Address)
		out.Process = &processJSON{Known: p.How.String(), Comm: clean(p.Comm), Threads: p.Threads, TIDs: p.TIDs}
		if p.TGID >= 0 {
			out.Process.TGID = &p.TGID
		}
	}
	if l.Longest != nil && l.Longest.Lock != nil {
		w := waitOf(l.Longest)
		out.Longest = &w
	}
	for _, b := range l.Histogram {
		out.Histogram = append(out.Histogram, bucketJSON{b.From, b.Count})
	}
	for i := range l.Flows {
		f := &l.Flows[i]
		out.Flows = append(out.Flows, flowJSON{index(l.WaitStacks, &f.Wait), index(l.Wakers, &f.Wake), f.Count, f.Time})
	}
	return out
}

func stacksOf(list []futex.StackShare, whole tracefs.Time) []stackJSON {
	out := []stackJSON{}
	for _, s := range list {
		x := stackJSON{None: s.None, Count: s.Count, Time: s.Time}
		if whole > 0 {
			x.Share = float64(s.Time) / float64(whole)
		}
		if s.Stack != nil {
			x.Frames, x.Cut, x.End = framesOf(s.Stack), s.Stack.Cut, s.Stack.End.String()
		}
		out = append(out, x)
	}
	return out
}

func framesOf(s *futex.Stack) []frameJSON {
	if s == nil {
		return nil
	}
	out := make([]frameJSON, 0, len(s.Frames))
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File == nil {
			without := frameJSON{Reason: f.Reason.String(), Address: hex(f.Address)}
			if f.Mapping != nil {
				without.VMAOffset = hex(f.Offset)
				without.Text = clean(f.Mapping.Name) + "[+" + hex(f.Offset) + "]"
			}
			without.named(f.Name)
			without.found(f.How)
			out = append(out, without)
			continue
		}
		out = append(out, frameOf(f.File, f.Offset, f.Trust, f.Name, f.Inferred))
		out[len(out)-1].found(f.How)
		if s := f.Skipped; s != nil {
			out = append(out, frameOf(s.File, s.Offset, f.Trust.Skipped(), s.Name, true))
		}
	}
	return out
}

// found says how a frame was found, if ustack did.
func (f *frameJSON) found(how tracefs.How) {
	if how != tracefs.ByKernel {
		f.How = how.String()
	}
}

// frameOf is a frame with a file.
func frameOf(f *filemap.File, offset uint64, trust filemap.Trust, n *symbol.Name, inferred bool) frameJSON {
	out := frameJSON{Offset: hex(offset), Path: clean(f.Path), BuildID: f.BuildID.Hex(), Trust: trust.String(), Inferred: inferred}
	out.named(n)
	return out
}

func threadsOf(list []futex.ThreadTime) []threadJSON {
	out := []threadJSON{}
	for _, x := range list {
		out = append(out, threadJSON{x.TID, clean(x.Comm), x.Count, x.Time})
	}
	return out
}

func ownersOf(list []futex.ThreadTime) (out []ownerJSON) {
	for _, o := range list {
		out = append(out, ownerJSON{o.TID, clean(o.Comm), o.Count})
	}
	return out
}

func blockedOf(b *futex.Blocked) blockedJSON {
	out := blockedJSON{TID: b.TID, Comm: clean(b.Comm), Since: b.Since, Time: b.Time, Stack: framesOf(b.Stack), Doubt: b.Doubt}
	if b.Stack == nil {
		out.NoStack = b.Missing
	}
	if b.Lock != nil {
		out.Address, out.Kind = hex(b.Lock.Address), b.Lock.Kind.String()
	}
	if b.Owner != 0 {
		out.Owner, out.OwnedFrom, out.OwnerDead, out.OwnerRead = b.Owner, &b.OwnedFrom, b.OwnerDead, b.OwnerRead
	}
	return out
}

func waitOf(w *futex.Wait) waitJSON {
	out := waitJSON{
		TID: w.TID, Comm: clean(w.Comm), Address: hex(w.Lock.Address), From: w.From, Time: w.Time, Result: w.Result.String(),
		Stack: framesOf(w.Stack), Waker: w.Waker, WakerComm: clean(w.WakerComm), WakerSure: w.WakerSure,
		WakerStack: framesOf(w.WakerStack), Holder: w.Holder.TID, Share: w.Holder.Share, Why: w.Holder.Why,
	}
	if w.Holder.TID != 0 {
		out.Confidence = confidence(w.Holder.Sure)
	}
	for _, s := range w.Segments {
		out.Segments = append(out.Segments, segmentJSON{s.TID, s.From, s.To})
	}
	return out
}

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

// JSON writes a report as one document.
func JSON(w io.Writer, r *futex.Report) error {
	unit := "ns"
	if r.Ticks {
		unit = "ticks"
	}
	d := document{
		Impact: impactOf(r),
		Schema: Schema, TimeUnit: unit, Start: r.Start, End: r.End, SliceTime: r.SliceTime, Calls: r.Calls,
		Contended: sumOf(&r.Contended, r), Signalled: sumOf(&r.Signalled, r), All: sumOf(&r.All, r),
		LockCount: r.LockCount, Locks: locksOf(r.Locks, r), SignalCount: r.SignalCount, Condvars: locksOf(r.Signals, r),
		Blocked: []blockedJSON{}, Longest: []waitJSON{}, ThreadCount: r.ThreadCount, Threads: threadsOf(r.Threads),
		Before:   beforeOf(r),
		Waitv:    waitvJSON{r.Waitv.Waits, r.Waitv.Time},
		NoReturn: r.NoReturn, Notes: append([]string{}, r.Notes...),
		Verdict: verdictOf(r),
		Loss:    lossJSON{Gaps: r.Loss.Gaps, Records: r.Loss.Records, Unknown: r.Loss.Unknown, Refused: r.Loss.Refused, Bounded: r.Loss.Bounded, Forgotten: r.Loss.Forgotten},
	}
	if x := r.Reach; x != nil {
		d.Reach = &reachJSON{x.Stacks, x.Unwound, x.Application, x.Root, clean(x.End)}
	}
	if x := r.Released; x != nil && x.Unwound > 0 {
		d.Released = &releasedJSON{x.Stacks, x.Unwound, x.Application, x.Root, clean(x.End)}
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
		d.Longest = append(d.Longest, waitOf(x, r))
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

func beforeOf(r *futex.Report) beforeJSON {
	b := &r.Before
	if r.Loss.Any() {
		return beforeJSON{Waits: b.Waits, AtMost: &b.Time, Unclear: b.Unclear, UnclearAtMost: &b.UnclearTime}
	}
	return beforeJSON{Waits: b.Waits, AtLeast: &b.Time, Unclear: b.Unclear, UnclearAtLeast: &b.UnclearTime}
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
		Split: splitOf(l.Split, r),
	}
	if most := l.Rest.Most(); most.Count > 0 {
		out.More, out.MoreTime = most.Count, &most.Time
	}
	if l.File != "" {
		out.Offset = hex(l.Offset)
		if l.FileLate {
			out.FileTrust = filemap.Late.String()
		}
	}
	if out.Role, out.Program = l.Role, clean(l.Program); l.Futexes > 1 {
		out.Futexes, out.Group = l.Futexes, string(l.Group)
	}
	if v := l.Variable; v != nil {
		out.symbolJSON = symbolJSON{clean(v.String()), clean(v.File.Path), l.VariableTrust.String(), v.Source.String()}
	}
	if p := l.Process; p != nil {
		out.Address = hex(l.Address)
		out.Process = &processJSON{Known: p.How.String(), Comm: clean(p.Comm), Program: clean(p.Program), Threads: p.Threads, TIDs: p.TIDs}
		if p.TGID >= 0 {
			out.Process.TGID = &p.TGID
		}
	}
	if l.Longest != nil && l.Longest.Lock != nil {
		w := waitOf(l.Longest, r)
		out.Longest = &w
	}
	for _, b := range l.Histogram {
		out.Histogram = append(out.Histogram, bucketJSON{b.From, b.Count})
	}
	for _, s := range l.Course {
		out.Slices = append(out.Slices, sliceJSON{s.At, s.Waits, s.Time})
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
			x.Frames, x.Cut, x.End = framesOf(s.Stack), s.Stack.Cut, s.Stack.EndWord()
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

// frameOf returns a frame with a file.
func frameOf(f *filemap.File, offset uint64, trust filemap.Trust, n *symbol.Name, inferred bool) frameJSON {
	out := frameJSON{Offset: hex(offset), Path: clean(f.Path), BuildID: f.BuildID.Hex(), Trust: trust.String(), Inferred: inferred}
	out.named(n)
	return out
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

func waitOf(w *futex.Wait, r *futex.Report) waitJSON {
	out := waitJSON{
		TID: w.TID, Comm: clean(w.Comm), Address: hex(w.Lock.Address), From: w.From, Time: w.Time, Result: w.Result.String(),
		Stack: framesOf(w.Stack), Waker: w.Waker, WakerComm: clean(w.WakerComm), WakerSure: w.WakerSure,
		WakerStack: framesOf(w.WakerStack), Holder: w.Holder.TID, Share: w.Holder.Share, Why: w.Holder.Why,
		Split: splitOf(w.Split, r),
	}
	if w.Holder.TID != 0 {
		out.Confidence = confidence(w.Holder.Sure)
	}
	for _, s := range w.Segments {
		out.Segments = append(out.Segments, segmentJSON{s.TID, s.From, s.To})
	}
	return out
}

func verdictOf(r *futex.Report) verdictJSON {
	v := verdictJSON{Kind: r.Verdict.Kind.String(), Proof: []string{}}
	text, proof := verdict(&r.Verdict, r.Ticks)
	v.Text, v.Proof = text, append(v.Proof, proof...)
	if r.Verdict.Kind != futex.NoLockUp {
		v.Confidence = confidence(r.Verdict.Sure)
	}
	return v
}

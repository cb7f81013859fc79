package report

import (
	"io"

	"ustack/filemap"
	"ustack/render/framejson"
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
		NoReturn: r.NoReturn, Notes: append(append([]string{}, r.Hints...), r.Notes...),
		LongHolds: longHoldsOf(r.LongHolds),
		Chains:    chainsOf(r), Roots: rootList(r.Roots), NoRoot: r.NoRoot,
		Inversions: inversionsOf(r),
		Verdict:    verdictOf(r),
		Loss:       lossJSON{Gaps: r.Loss.Gaps, Records: r.Loss.Records, Unknown: r.Loss.Unknown, Refused: r.Loss.Refused, Bounded: r.Loss.Bounded, Forgotten: r.Loss.Forgotten},
	}
	if x := r.Reach; x != nil {
		d.Reach = &reachJSON{x.Stacks, x.Unwound, x.Application, x.Root, framejson.Clean(x.End)}
	}
	if x := r.Released; x != nil && x.Unwound > 0 {
		d.Released = &releasedJSON{x.Stacks, x.Unwound, x.Application, x.Root, framejson.Clean(x.End)}
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
	return framejson.Write(w, &d)
}

func confidence(sure bool) string {
	if sure {
		return "high"
	}
	return "low"
}

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
		Shared: l.Shared && !l.Local, File: framejson.Clean(l.File), Kind: l.Kind.String(), Waits: l.Waits,
		Woken: n[futex.Woken], Changed: n[futex.Changed], TimedOut: n[futex.TimedOut], Interrupted: n[futex.Interrupted],
		Requeued: n[futex.Requeued], Failed: n[futex.Failed], NoReturn: n[futex.NoReturn], Open: n[futex.Open],
		Total: l.Time, OpenTime: l.OpenTime, Bounds: boundsOf(&l.Sum, r), Mean: l.Mean, P50: l.P50, P99: l.P99, Max: l.Max,
		Histogram: []framejson.Bucket{}, WaitStacks: stacksOf(l.WaitStacks, l.Time), Wakers: stacksOf(l.Wakers, l.Time), Flows: []flowJSON{},
		Waiters: threadsOf(l.Waiters), WakerTIDs: threadsOf(l.WakerTIDs), Holders: threadsOf(l.Holders), Owners: ownersOf(l.Owners), Partial: l.Partial, Wakes: l.Wakes, ByWakes: l.Woken,
		Split: splitOf(l.Split, r), Holds: holdsOf(l.Holds), Convoys: convoysOf(l.Convoys),
	}
	if most := l.Rest.Most(); most.Count > 0 {
		out.More, out.MoreTime = most.Count, &most.Time
	}
	if l.File != "" {
		out.Offset = framejson.Hex(l.Offset)
		if l.FileLate {
			out.FileTrust = filemap.Late.String()
		}
	}
	if out.Role, out.Program = l.Role, framejson.Clean(l.Program); l.Futexes > 1 {
		out.Futexes, out.Group = l.Futexes, string(l.Group)
	}
	if v := l.Variable; v != nil {
		out.symbolJSON = symbolJSON{Path: framejson.Clean(v.File.Path), Trust: l.VariableTrust.String()}
		if v.Name == "" {
			out.Place = framejson.Hex(v.Offset)
		} else {
			out.Symbol, out.Source = framejson.Clean(v.String()), v.Source.String()
		}
	}
	if p := l.Process; p != nil {
		out.Address = framejson.Hex(l.Address)
		out.Process = &processJSON{Known: p.How.String(), Comm: framejson.Clean(p.Comm), Program: framejson.Clean(p.Program), Threads: p.Threads, TIDs: p.TIDs}
		if p.TGID >= 0 {
			out.Process.TGID = &p.TGID
		}
	}
	if l.Longest != nil && l.Longest.Lock != nil {
		w := waitOf(l.Longest, r)
		out.Longest = &w
	}
	for _, b := range l.Histogram {
		out.Histogram = append(out.Histogram, framejson.Bucket{From: b.From, Count: b.Count})
	}
	for _, s := range l.Course {
		out.Slices = append(out.Slices, sliceJSON{s.At, s.Waits, s.Time})
	}
	for _, f := range l.Flows {
		out.Flows = append(out.Flows, flowJSON{f.Wait, f.Wake, f.Count, f.Time})
	}
	return out
}

func stacksOf(list []futex.StackShare, whole tracefs.Time) []stackJSON {
	out := []stackJSON{}
	for _, s := range list {
		x := stackJSON{Stack: framejson.StackOf(s.Stack, s.None), Count: s.Count, Time: s.Time}
		if whole > 0 {
			x.Share = float64(s.Time) / float64(whole)
		}
		out = append(out, x)
	}
	return out
}

func threadsOf(list []futex.ThreadTime) []threadJSON {
	out := []threadJSON{}
	for _, x := range list {
		out = append(out, threadJSON{x.TID, framejson.Clean(x.Comm), x.Count, x.Time})
	}
	return out
}

func ownersOf(list []futex.ThreadTime) (out []ownerJSON) {
	for _, o := range list {
		out = append(out, ownerJSON{o.TID, framejson.Clean(o.Comm), o.Count})
	}
	return out
}

func blockedOf(b *futex.Blocked) blockedJSON {
	out := blockedJSON{TID: b.TID, Comm: framejson.Clean(b.Comm), Since: b.Since, Time: b.Time, Stack: framejson.Frames(b.Stack), Doubt: b.Doubt}
	if b.Stack == nil {
		out.NoStack = b.Missing
	}
	if b.Lock != nil {
		out.Address, out.Kind = framejson.Hex(b.Lock.Address), b.Lock.Kind.String()
	}
	if b.Owner != 0 {
		out.Owner, out.OwnedFrom, out.OwnerDead, out.OwnerRead = b.Owner, &b.OwnedFrom, b.OwnerDead, b.OwnerRead
	}
	return out
}

func waitOf(w *futex.Wait, r *futex.Report) waitJSON {
	out := waitJSON{
		TID: w.TID, Comm: framejson.Clean(w.Comm), Address: framejson.Hex(w.Lock.Address), From: w.From, Time: w.Time, Result: w.Result.String(),
		Stack: framejson.Frames(w.Stack), Waker: w.Waker, WakerComm: framejson.Clean(w.WakerComm), WakerSure: w.WakerSure,
		WakerStack: framejson.Frames(w.WakerStack), Holder: w.Holder.TID, Share: w.Holder.Share, Why: w.Holder.Why,
		Split: splitOf(w.Split, r), Steps: stepsOf(w),
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

package resolve

import (
	"errors"
	"fmt"
	"slices"

	"ustack/tracefs"
)

// check returns what of the invariants of the parts of a resolver does not hold; of the
// threads it looks at all.
func (r *Resolver) check() error {
	var errs error
	r.tasks.each(func(t *task) { errs = errors.Join(errs, r.checkTask(t)) })
	return errors.Join(errs, r.tasks.check(), r.stitch.checkAll(), r.names.checkAll(&r.tasks), r.bindings.check(), r.querier.check(), r.tally.check(), r.checkCounts(), r.checkParts(r.queue.list))
}

// checkAfter returns what does not hold after a record; of the batches it looks at what the
// one of the record counts.
func (r *Resolver) checkAfter(rec *tracefs.Record) error {
	return errors.Join(r.checkTask(r.tasks.get(rec.TID)), r.checkParts(r.queue.list[len(r.queue.list)-1:]))
}

func (r *Resolver) checkParts(list []*Pending) error {
	return errors.Join(r.queue.check(), r.losses.check(), r.texts.check(), r.names.check(), r.templates.check(list), r.stitch.check(list))
}

// checkTask returns what does not hold of a thread.
func (r *Resolver) checkTask(t *task) error {
	return errors.Join(r.owners.check(t), r.requests.check(t))
}

// checkCounts returns what does not hold of counts of different parts.
func (r *Resolver) checkCounts() error {
	var pending, missing int64
	r.tasks.each(func(t *task) {
		if t.pending {
			pending++
		}
	})
	for why, n := range r.requests.missing {
		if why != int(Refused) {
			missing += n
		}
	}
	if come := r.requests.made - pending - missing; come < 0 || come > r.tally.totals.Stacks {
		return fmt.Errorf("of %d requests %d wait and %d are missing, with %d stacks", r.requests.made, pending, missing, r.tally.totals.Stacks)
	}
	return nil
}

// check returns what of the invariants does not hold.
func (b *bindings) check() error {
	if n := b.table.Len(); n > b.limit {
		return fmt.Errorf("%d identifiers of %d", n, b.limit)
	}
	for f := range b.table.Files() {
		kept := b.files.Intern([]byte(f.Path), nil)
		if f.HasID {
			kept = b.files.InternID([]byte(f.Path), f.BuildID)
		}
		if kept != f {
			return fmt.Errorf("an identifier means %s, which is not kept", f.Path)
		}
	}
	return nil
}

// check returns what of the invariants does not hold.
func (t *texts) check() error {
	if d := t.plainDialect(); d != Plain && d != Offset || (t.dialect == Plain || t.dialect == Offset) && d != t.dialect {
		return fmt.Errorf("plain frames are taken for %v with %v asked for", d, t.dialect)
	}
	return nil
}

// check returns what of the invariants does not hold.
func (n *names) check() error {
	for e, list := range n.waiting {
		if len(list) == 0 || e.Last() != nil {
			return fmt.Errorf("%d frames wait for %v, which means %v", len(list), e.ID, e.Last())
		}
		for i, w := range list {
			if i > 0 && w.pending.seq < list[i-1].pending.seq {
				return fmt.Errorf("a frame of batch %d waits after one of %d", w.pending.seq, list[i-1].pending.seq)
			}
			if w.pending.Batch == nil || !n.queue.holds(w.pending.seq) {
				return fmt.Errorf("a frame waits for %v in batch %d, which has gone", e.ID, w.pending.seq)
			}
			if w.out.File != nil && !w.out.own {
				return fmt.Errorf("a frame waits for %v and has %s", e.ID, w.out.File.Path)
			}
		}
	}
	return nil
}

// checkAll returns what of the invariants does not hold with all threads.
func (n *names) checkAll(ts *tasks) error {
	open := make(map[*Pending]int)
	ts.each(func(t *task) {
		if t.span.pending != nil && n.queue.holds(t.span.seq) {
			open[t.span.pending]++
		}
	})
	for _, list := range n.waiting {
		for _, w := range list {
			open[w.pending]++
		}
	}
	for _, s := range n.undecided {
		if n.queue.holds(s.seq) {
			open[s.pending]++
		}
	}
	for _, h := range n.queue.list {
		if !h.final && open[h] != h.names {
			return fmt.Errorf("%d frames wait and spans are open or undecided in batch %d, %d are counted", open[h], h.seq, h.names)
		}
	}
	return nil
}

// check returns what of the invariants does not hold of held batches.
func (s *templates) check(list []*Pending) error {
	for _, h := range list {
		have, counted := 0, 0
		for _, res := range h.Results {
			if res == nil {
				continue
			}
			have += len(res.Attributions)
			if res.named > 0 && (int(res.named) != len(res.Attributions) || slices.ContainsFunc(res.Attributions, func(o Attribution) bool { return o.Trust != res.trust })) {
				return fmt.Errorf("of %d frames %d have trust %v", len(res.Attributions), res.named, res.trust)
			}
		}
		for _, n := range h.named {
			counted += int(n)
		}
		for _, res := range h.mixed {
			counted += len(res.Attributions)
		}
		if have != counted {
			return fmt.Errorf("stacks of batch %d have %d frames of shapes, %d are counted", h.seq, have, counted)
		}
		if err := h.shares.check(h); err != nil {
			return err
		}
	}
	return nil
}

// check returns what of the invariants does not hold of a held batch.
func (s *shares) check(h *Pending) error {
	stacks := 0 // that were taken
	for _, res := range h.Results {
		if res != nil {
			stacks++
		}
	}
	for _, i := range s.apart {
		if h.Records[i].Template == 0 {
			stacks++
		}
	}
	counted, inUses := len(s.apart)+len(s.owned), 0
	for _, x := range s.before {
		counted += int(x.stacks)
	}
	for _, k := range s.touched {
		inUses += int(h.uses[k].stacks)
	}
	for i := range h.uses {
		inUses -= int(h.uses[i].stacks)
	}
	for _, x := range h.appendShared(nil) {
		counted += int(x.stacks)
	}
	if inUses != 0 || counted != stacks || !slices.IsSorted(s.apart) {
		return fmt.Errorf("batch %d has %d stacks, %d are counted, %d of them in uses that are not known to count; apart: %v", h.seq, stacks, counted, -inUses, s.apart)
	}
	return nil
}

// check returns what of the invariants does not hold of a thread.
func (o *owners) check(t *task) error {
	if t.early != nil && (len(t.early.list) > maxEarly || t.early.cookie == 0 && len(t.early.list) > 0) {
		return fmt.Errorf("%d files were announced before the stack of %#x", len(t.early.list), t.early.cookie)
	}
	s := &t.span
	if s.pending == nil || !o.queue.holds(s.seq) {
		return nil
	}
	if s.pending.seq != s.seq || s.pending.names == 0 {
		return fmt.Errorf("the span is of batch %d, which is %d, with %d names", s.seq, s.pending.seq, s.pending.names)
	}
	rec := &s.pending.Records[s.rec]
	frames, _ := s.pending.StackFrames(rec)
	if rec.Kind != tracefs.KindStack || s.pending.pos(s.rec) != s.pos || !slices.ContainsFunc(frames, func(f tracefs.Frame) bool { return f.Form == tracefs.FormIdentifier }) {
		return fmt.Errorf("the span begins at record %d of batch %d", s.rec, s.seq)
	}
	return nil
}

// check returns what of the invariants does not hold of a thread.
func (r *requests) check(t *task) error {
	if t.pending && t.cookie == 0 {
		return errors.New("a thread waits for a stack and has no cookie")
	}
	if !t.pending && len(t.stitch.asked) > 0 {
		return fmt.Errorf("%d events wait for a stack that their thread does not ask for", len(t.stitch.asked))
	}
	return nil
}

// check returns what of the invariants does not hold.
func (q *queue) check() error {
	if want := q.released + int64(len(q.list)); q.seq != want {
		return fmt.Errorf("batch %d is the newest, %d should be", q.seq, want)
	}
	for i, h := range q.list {
		if h.Batch == nil || h.seq != q.released+1+int64(i) {
			return fmt.Errorf("batch %d of the queue is %d, after %d", i, h.seq, q.released)
		}
		if h.needs != 0 && (h.needs <= h.seq || h.needs > q.seq) {
			return fmt.Errorf("batch %d of %d needs %d", h.seq, q.seq, h.needs)
		}
		if h.names < 0 || h.events < 0 {
			return fmt.Errorf("%d names and %d events wait in batch %d", h.names, h.events, h.seq)
		}
		if i == len(q.list)-1 && h.end != q.now {
			return fmt.Errorf("the newest batch ends at %+v, not at %+v", h.end, q.now)
		}
	}
	for i, h := range q.free {
		if h.Batch != nil {
			return fmt.Errorf("batch %d is free and has text", i)
		}
	}
	return nil
}

// check returns what of the invariants does not hold.
func (l *losses) check() error {
	var noted int64
	for _, n := range l.lost {
		noted += n.Gaps
	}
	if noted != l.noted {
		return fmt.Errorf("%d losses are counted, CPUs have %d", l.noted, noted)
	}
	for cpu, pos := range l.last {
		if l.first == 0 || pos < l.first-1 {
			return fmt.Errorf("the last loss of CPU %d is at %d, the first of all at %d", cpu, pos, l.first-1)
		}
	}
	return nil
}

// check returns what of the invariants does not hold.
func (ts *tasks) check() error {
	used := 0
	for _, p := range ts.pages {
		if p != nil {
			used++
		}
	}
	if used != ts.used || used > maxPages {
		return fmt.Errorf("%d pages of threads, %d are counted", used, ts.used)
	}
	return nil
}

// check returns what of the invariants does not hold with held batches.
func (s *stitcher) check(list []*Pending) error {
	for _, h := range list {
		n := 0
		for i := range h.Attached {
			if h.Attached[i].waits {
				n++
			}
		}
		if n != h.events {
			return fmt.Errorf("%d events of batch %d wait, %d are counted", n, h.seq, h.events)
		}
	}
	for _, cpus := range s.open {
		for cpu, list := range cpus {
			if len(list) > maxNested {
				return fmt.Errorf("%d events are open on CPU %d", len(list), cpu)
			}
			for i := range list {
				if !s.checkRef(&list[i]) {
					return fmt.Errorf("open event %d of CPU %d is of thread %d", i, cpu, list[i].tid)
				}
			}
		}
	}
	return nil
}

// checkRef reports whether what is known of an event is that of its record, if that is
// held.
func (s *stitcher) checkRef(ref *eventRef) bool {
	return !s.live(ref) || ref.pending.seq == ref.seq && ref.pending.Records[ref.rec].TID == ref.tid
}

// checkAll returns what of the invariants does not hold of all threads.
func (s *stitcher) checkAll() error {
	known := make(map[*Attached]bool)
	add := func(list []eventRef) {
		for i := range list {
			if ref := &list[i]; s.live(ref) {
				known[&ref.pending.Attached[ref.rec]] = true
			}
		}
	}
	for _, cpus := range s.open {
		for _, list := range cpus {
			add(list)
		}
	}
	kept := 0
	s.tasks.each(func(t *task) {
		add(t.stitch.asked)
		if t.stitch.last != nil {
			kept += t.stitch.last.size
		}
	})
	if kept != s.kept {
		return fmt.Errorf("%d bytes of stacks are kept, %d are counted", kept, s.kept)
	}
	for _, h := range s.queue.list {
		for i := range h.Attached {
			if a := &h.Attached[i]; a.waits && !known[a] {
				return fmt.Errorf("event %d of batch %d waits for no request", i, h.seq)
			}
		}
	}
	return nil
}

// check returns what of the invariants does not hold.
func (j *querier) check() error {
	if len(j.entries) > maxEntries {
		return fmt.Errorf("%d threads are known", len(j.entries))
	}
	if s := &j.query; len(s.Frames) != len(s.Attributions) {
		return fmt.Errorf("a stack has %d frames and %d outcomes", len(s.Frames), len(s.Attributions))
	}
	for tid, e := range j.entries {
		if e.losses > j.missed {
			return fmt.Errorf("thread %d has %d losses of %d", tid, e.losses, j.missed)
		}
	}
	return nil
}

// check returns what of the invariants does not hold.
func (r *tally) check() error {
	t := &r.totals
	frames := t.Resolved()
	for _, n := range t.Reasons {
		frames += n
	}
	if frames != t.Frames {
		return fmt.Errorf("%d frames, %d have a file or a reason", t.Frames, frames)
	}
	for _, far := range []Reach{t.waits.sum, t.all.sum, t.unwound.sum} {
		if max(far.Unwound, far.Application, far.Root) > far.Stacks || far.Stacks > t.Stacks {
			return fmt.Errorf("%+v of %d stacks", far, t.Stacks)
		}
	}
	return nil
}

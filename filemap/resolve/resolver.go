package resolve

import (
	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// Attribution is the file of a frame, or the reason why it has none.
type Attribution struct {
	File *filemap.File
	// Memory is what a frame without a file lies in, nil if unknown. With
	// reason VMAOffset it is a mapping whose name may be a file's, and Offset
	// is the one in the mapping.
	Memory *filemap.Memory
	// Offset is where in the file, or in the vDSO, the frame is, if HasOffset:
	// then the frame's own number was not that.
	Offset    uint64
	HasOffset bool
	Trust     filemap.Trust
	Reason    filemap.Reason
	// own is set if the frame's own stack made the kernel announce the file: no
	// other mapping event says more about it.
	own bool
	// Calls is the function that the thread began with, if it is known and was
	// called right before the frame's address.
	Calls filemap.Begun
}

// Named returns the attribution of a frame with a file. One whose path is unknown (perf
// reports "//toolong" for it), or longer than can be read back, has no name to give.
func Named(f *filemap.File, t filemap.Trust) Attribution {
	if f.Path == "" || len(f.Path) > text.MaxPath {
		return Unnamed(filemap.NoIdentifier)
	}
	return Attribution{File: f, Trust: t}
}

// Unnamed returns the attribution of a frame without.
func Unnamed(r filemap.Reason) Attribution { return Attribution{Reason: r} }

// bound returns the attribution of a frame with an identifier that has been
// announced: by the kernel because of another stack, or in a report.
func bound(b *filemap.Binding) Attribution {
	if b.Report {
		return Named(b.File, b.Trust)
	}
	return Named(b.File, filemap.Claimed)
}

// owned returns the attribution of the frames of the stack that made the kernel
// announce.
func owned(b *filemap.Binding) Attribution {
	o := Own(b.File)
	if b.Report {
		o.Trust = b.Trust
	}
	return o
}

// Own returns the attribution of a frame whose own stack made the kernel announce
// the file.
func Own(f *filemap.File) Attribution {
	o := Named(f, filemap.Announced)
	o.own = true
	return o
}

func unnamed(r filemap.Reason) Attribution { return Unnamed(r) }

// At returns the offset in the file of a frame that has one, and else the frame's number.
// text is the one that the frame points into.
func (o *Attribution) At(text []byte, f *tracefs.Frame) uint64 {
	if o.HasOffset {
		return o.Offset
	}
	return f.Address(text)
}

// Owned reports whether the frame's own stack made the kernel announce the
// file: then the kernel looked at this very process.
func (o *Attribution) Owned() bool { return o.own }

// Query is a stack to be attributed: its frames, the text they point
// into, and their attributions, which may be changed.
type Query struct {
	TID   int32
	TGID  int32  // its process, tracefs.NoTID if unknown: see Identify
	Comm  []byte // the thread's name, nil if unknown
	Time  tracefs.Time
	Timed bool // Time counts nanoseconds
	// Event is, if not 0, the earlier time of the event whose stack the kernel took at
	// once: since then the thread has been in the kernel.
	Event tracefs.Time
	// Syscall: it is the stack of a system call, so that frame 0 is where the
	// call returns to.
	Syscall bool
	// Jumped: the thread has called sigreturn(2) since it was requested, so that the
	// stack is not that of the events that requested it.
	Jumped bool
	// Continued: the frames are the rest of a stack.
	Continued bool
	// Joined: it is of another file than the trace begins with, see tracefs.Joined.
	Joined bool
	// Deferred: the stack was unwound on return to user space. Asked is, if not
	// 0, the first known event that asked for it: since then the thread has been
	// in the kernel.
	Deferred     bool
	Asked        tracefs.Time
	Text         []byte
	Frames       []tracefs.Frame
	Attributions []Attribution

	why    *proof.Steps // of frame asked
	asked  int
	batch  *tracefs.Batch // nil if there is nothing to identify it by
	record *tracefs.Record
}

// Exact returns the time of the stack as the kernel took it; ok is false if the source has
// only text, which may be rounded.
func (s *Query) Exact() (t tracefs.Time, ok bool) {
	if s.record == nil {
		return 0, false
	}
	return s.batch.Exact(s.record)
}

// Plain returns a piece of Text as it was before it was escaped.
func (s *Query) Plain(piece []byte) []byte {
	if s.batch == nil {
		return piece
	}
	return s.batch.Plain(piece)
}

// FrameText returns a frame's line without its line feed.
func (s *Query) FrameText(f *tracefs.Frame) []byte { return s.Text[f.Off:f.End] }

// Why receives the steps by which an Attributor finds the attribution of a frame, nil if
// they are not needed.
func (s *Query) Why(k int) *proof.Steps {
	if s.why == nil || s.asked != k {
		return nil
	}
	return s.why
}

// Why asks for the proof of the frame in a line of the input, counted from 1.
type Why struct {
	Line  int64
	Steps proof.Steps
}

// Attributor attributes stacks after the kernel's mapping events have been applied.
type Attributor interface {
	Attribute(s *Query)
}

// Options configure a Resolver.
type Options struct {
	// Hold bounds how far after a stack names are looked for.
	Hold Limits
	// Stitch ties stacks to the events that asked for them.
	Stitch bool
	// Waits counts stacks of waits apart, as Stitch does: all events have records.
	Waits bool
	// Late finds stacks that come too late for their events; nil if the
	// input can be read only once.
	Late *LateStacks
	// Dialect is how to read frames without an identifier.
	Dialect Dialect
	// First finds the first mapping event of an identifier in the whole
	// input, and how many losses were before it, for inputs that can be read twice; nil for others.
	First func(tracefs.Identifier) (a tracefs.MappingEvent, losses int64, ok bool)
	// Identifiers bounds the table of identifiers, 0 for the default.
	Identifiers int
	// Attributor decides about frames last; nil for none. It attributes each stack by
	// itself, so the source must not use templates, but for settled ones.
	Attributor Attributor
	// Exact passes exact times of stacks to the Attributor, where the source has them.
	Exact bool
	// Why asks for the proof of a frame; nil for none.
	Why *Why
	// FindID returns the path of a file with a build ID, for frames that have one and no
	// path, and how far it is to be trusted, NoTrust if there is none; nil for none.
	FindID func(filemap.BuildID) (path string, trust filemap.Trust)
	// Strict leaves frames unresolved whose file is only claimed.
	Strict bool
	// Sources is the number of inputs that were merged.
	Sources int

	collect *LateStacks // gathers late stacks
}

const defaultIdentifiers = 1 << 17

// Resolver gives every frame of a stream of batches its file or a reason.
// Batches go in by Add and come out, in the same order, by Next.
type Resolver struct {
	opt Options

	queue     queue
	losses    losses
	tasks     tasks
	bindings  bindings
	texts     texts
	owners    owners
	names     names
	templates templates
	stitch    stitcher
	requests  requests
	querier   querier
	tally     tally
}

// New returns a Resolver.
func New(opt Options) *Resolver {
	if opt.Identifiers == 0 {
		opt.Identifiers = defaultIdentifiers
	}
	r := &Resolver{opt: opt}
	r.connect()
	return r
}

// connect gives each part the lower ones that it asks.
func (r *Resolver) connect() {
	opt := &r.opt
	r.queue = queue{limits: opt.Hold, tied: opt.Sources > 1}
	r.losses = losses{lost: make(map[int32]Loss), last: make(map[int32]filemap.Pos)}
	r.bindings = bindings{limit: opt.Identifiers, files: filemap.NewFiles(), table: filemap.NewTable(opt.Identifiers), queue: &r.queue}
	r.texts = texts{dialect: opt.Dialect, bindings: &r.bindings, find: opt.FindID}
	r.owners = owners{queue: &r.queue, losses: &r.losses}
	r.names = names{waiting: make(map[*filemap.Entry][]waiter), sources: opt.Sources, first: opt.First,
		queue: &r.queue, losses: &r.losses, bindings: &r.bindings, texts: &r.texts, owners: &r.owners}
	r.templates = templates{table: r.bindings.table, names: &r.names}
	r.stitch = stitcher{again: *opt, queue: &r.queue, tasks: &r.tasks}
	r.requests = requests{late: opt.collect != nil, queue: &r.queue, losses: &r.losses, owners: &r.owners, names: &r.names, stitch: &r.stitch}
	r.querier = querier{attributor: opt.Attributor, exact: opt.Exact, why: opt.Why}
	r.tally = tally{files: r.bindings.files}
	r.tasks.drop = func(t *task) {
		r.requests.forget(t)
		r.owners.end(t)
		r.stitch.forget(t)
	}
}

// Add takes the next batch. It belongs to the resolver until Next has given
// it back.
func (r *Resolver) Add(b *tracefs.Batch) {
	h := r.begin(b)
	for i := range b.Records {
		r.record(h, i, &b.Records[i])
	}
}

// begin holds a batch whose records come next.
func (r *Resolver) begin(b *tracefs.Batch) *Pending {
	r.texts.escaped = b.Escaped
	r.tally.totals.Events += b.Events
	return r.queue.hold(b, r.opt.Stitch)
}

// record takes the next record of the newest batch.
func (r *Resolver) record(h *Pending, i int, rec *tracefs.Record) {
	switch rec.Kind {
	case tracefs.KindStack:
		r.stack(h, i, rec)
	case tracefs.KindCookie:
		if rec.Flags&tracefs.Cut == 0 {
			r.cookie(h, i, rec)
		}
	case tracefs.KindMappingEvent:
		r.names.announce(r.tasks.get(rec.TID), h, i, rec)
		if r.opt.Stitch {
			r.stitch.openEvent(h, i, rec)
		}
	case tracefs.KindLost:
		r.losses.lose(rec)
		r.names.blame(h, i, rec)
		r.stitch.loseEvents(rec)
	case tracefs.KindGap:
		r.losses.gaps++
		r.stitch.loseEvents(rec)
		if rec.CPU >= 0 {
			r.names.blame(h, i, rec) // the CPU's buffer starts late
		}
	case tracefs.KindEvent:
		if r.opt.waits() && waitEntry(h, rec) {
			r.tasks.get(rec.TID).waits = r.losses.count() + 1
		}
		if r.opt.Stitch {
			r.stitch.openEvent(h, i, rec)
		}
	}
}

// Next returns the oldest batch if nothing can change in it any more, nil if
// it has to wait. The caller gives it back with Release; until then it may be read beside
// the Resolver, but for Result.
func (r *Resolver) Next() *Pending {
	h := r.queue.oldest()
	if h == nil {
		return nil
	}
	for _, needed := range r.queue.needed() {
		r.settle(needed)
	}
	r.stitch.settleEvents(h)
	r.stitch.keepLast(h)
	r.queue.pop()
	r.tally.count(h)
	if r.opt.collect != nil {
		r.opt.collect.collect(h)
	}
	return h
}

// settle decides about the frames of a batch that still wait, and lets the
// Attributor query: the batch goes out, or its stacks do with an earlier one.
func (r *Resolver) settle(h *Pending) {
	if h.final {
		return
	}
	h.final = true
	r.names.settle(h)
	r.querier.batch(h)
	if r.opt.Strict {
		for i := range h.Attributions {
			if o := &h.Attributions[i]; o.Trust == filemap.Claimed {
				*o = unnamed(filemap.OnlyClaimed)
			}
		}
	}
}

// Release takes back a batch that Next gave out, in the order in which they went out, and
// returns one that is free to be filled again, nil if there is none: stacks of it may be
// those of events that go out later. With nil it takes none back.
func (r *Resolver) Release(h *Pending) *tracefs.Batch {
	if h = r.queue.release(h); h == nil {
		return nil
	}
	r.stitch.freeStacks(h)
	return r.queue.reuse(h)
}

// Attributed returns the time up to which all stacks have their final attributions,
// within the difference of the clocks of CPUs.
func (r *Resolver) Attributed() tracefs.Time { return r.queue.attributed }

// stack resolves a stack's frames and opens the span in which mapping events
// belong to it.
func (r *Resolver) stack(h *Pending, i int, rec *tracefs.Record) {
	t := r.tasks.get(rec.TID)
	continued := rec.Flags&tracefs.Continued != 0
	wait := !continued && t.waits == r.losses.count()+1
	var identified bool
	if rec.Template != 0 {
		identified = r.templates.stack(h, i, rec, !continued && !wait)
	} else {
		h.shares.apart = append(h.shares.apart, int32(i))
		frames, text := h.StackFrames(rec)
		identified, _ = r.names.frames(h, i, rec, frames, text, h.Attributions[rec.Lo:rec.Hi])
	}
	if t.early != nil && t.early.cookie != 0 && identified {
		r.owners.nameEarly(t, h, i, rec)
	}
	if !continued {
		r.tally.totals.Stacks++
		if wait {
			h.waits = append(h.waits, int32(i))
		}
		t.waits = 0
		r.requests.stack(t, h, i, rec)
	}
	r.owners.stack(t, h, i, rec, identified)
	if rec.Flags&tracefs.Cut != 0 {
		r.tally.totals.Cut++
	}
	if r.opt.Stitch {
		r.stitch.attachStack(h, i, rec, t)
	}
}

// cookie notes that a thread asked for a stack.
func (r *Resolver) cookie(h *Pending, i int, rec *tracefs.Record) {
	t := r.tasks.get(rec.TID)
	r.requests.cookie(t, h, rec)
	if r.opt.Stitch {
		r.stitch.attachCookie(h, i, rec, t)
	}
}

// End notes that no batch follows.
func (r *Resolver) End() {
	r.queue.ended = true
	r.tasks.each(func(t *task) { r.requests.giveUp(t, Blocked) })
}

// Totals returns the sums so far.
func (r *Resolver) Totals() *Totals {
	t := &r.tally.totals
	t.Files = r.bindings.files.Count()
	t.MappingEvents, t.BadMappingEvents, t.Rebound = r.names.announced, r.names.bad, r.names.rebound
	t.Requests, t.Orphans, t.Missing = r.requests.made, r.requests.orphans, r.requests.missing
	t.Stackless, t.PendingTooLong = r.stitch.stackless, r.stitch.tooLate
	t.Lost, t.Gaps = r.losses.lost, r.losses.gaps
	return t
}

// DialectOf returns the dialect of a stack by the first frame that shows it, Auto
// if no frame does.
func (r *Resolver) DialectOf(b *tracefs.Batch, rec *tracefs.Record) Dialect {
	return r.texts.dialectOf(b, rec)
}

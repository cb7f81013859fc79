package live

import (
	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/live/source/pages"
	"ustack/cmd/ustack/internal/live/sources"
	"ustack/filemap/facts"
	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/instance"
)

// open opens the trace.
func (s *session) open() (src source.Source, err error) {
	open := func(r *source.Request) (source.Source, error) { return sources.Open(s.opt.Source, r) }
	if s.opt.Pages != nil {
		open = pages.Open
	}
	if r := recorderOf(s.tracer); r != nil && r.Deferred() {
		s.stacks = instance.DeferredStacks
	}
	s.source, err = open(&source.Request{
		Instance: s.in,
		Recorder: recorderOf(s.tracer),
		Enabled:  append(s.events[:len(s.events):len(s.events)], s.maps...),
		Events:   s.wantEvents() || recorderOf(s.tracer) == nil && s.follow.dates(),
		NoText:   s.opt.NoText && s.saved == nil,
		Spare:    s.opt.Spare && s.saved == nil && s.stacks == instance.StockStacks,
		Room:     s.growth.room,
		Grown:    s.growth.grown,
		Pace:     s.unwind.pace(),
		Patience: s.unwind.patience,
		Tasks:    s.follow.names(),
		Symbols:  binary.NewSymbols(func() []byte { return facts.KernelSymbols(s.opt.Proc) }),
		Pages:    s.opt.Pages,
		Kernel:   func() []byte { return facts.KernelSymbols(s.opt.Proc) },
		Complete: s.follow.complete,
	})
	if err != nil {
		return nil, err
	}
	s.settings.reads(s.source)
	return s.source, nil
}

// wantEvents reports whether each event is needed.
func (s *session) wantEvents() bool {
	return s.opt.Stitch || s.opt.EachEvent || s.unwind.on || s.tracesWaits()
}

// dates reports whether stacks can come later than the events that they are of: these are
// needed for their times.
func (fl *following) dates() bool {
	return fl.attributor != nil
}

// names has the names of tasks, nil if they are unknown.
func (fl *following) names() binary.Names {
	if band, ok := fl.follower.(*bandFollower); ok {
		return taskNames{band}
	}
	return nil
}

// complete writes out what is logged of address spaces, with the time up to which it has
// all changes.
func (fl *following) complete() error {
	if band, ok := fl.follower.(*bandFollower); ok {
		return band.complete()
	}
	return nil
}

// taskNames are the names of tasks that the side band has.
type taskNames struct{ band *bandFollower }

// Comm implements binary.Names.
func (n taskNames) Comm(tid int32, at uint64) (comm string, until uint64, ok bool) {
	comm, end, ok := n.band.comm(int(tid), tracefs.Time(at))
	return comm, uint64(end), ok
}

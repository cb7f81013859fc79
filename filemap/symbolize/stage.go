package symbolize

import (
	"ustack/filemap/openfile"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// Stage names the functions of the stacks in batches that have been attributed, before
// a renderer gets them.
type Stage struct {
	names symbol.Namer
	memo  memo
}

// NewStage returns a Stage.
func NewStage(names symbol.Namer) *Stage { return &Stage{names: names} }

// Batch names the stacks of a batch that are shown: those of its events, and its stack
// records, if no event has them.
func (s *Stage) Batch(h *resolve.Pending) {
	h.MakeFunctions()
	for i := range h.Records {
		if len(h.Attached) > 0 {
			a := &h.Attached[i]
			if a.Stack != nil {
				s.stack(a.Stack)
			}
			if a.Taken {
				continue
			}
		}
		if rec := &h.Records[i]; rec.Kind == tracefs.KindStack {
			s.record(h, i, rec)
		}
	}
}

// stack names a stack that events share.
func (s *Stage) stack(st *resolve.Stack) {
	switch r := st.Result; {
	case st.Functions != nil:
	case r == nil:
		st.Functions = s.functions(st.Text, st.Frames, st.Attributions, true)
	default:
		if r.Functions == nil {
			st.Functions = s.functions(st.Text, st.Frames, st.Attributions, true)
			r.Functions = lasting(st.Functions)
			return
		}
		st.Functions = r.Functions
	}
}

// record names a stack record.
func (s *Stage) record(h *resolve.Pending, i int, rec *tracefs.Record) {
	frames, text := h.StackFrames(rec)
	out, r := h.StackAttributions(i)
	switch innermost := rec.Flags&tracefs.Continued == 0; {
	case r == nil:
		h.Functions[i] = s.functions(text, frames, out, innermost)
	default: // a template: no record goes on with one
		if r.Functions == nil {
			h.Functions[i] = s.functions(text, frames, out, innermost)
			r.Functions = lasting(h.Functions[i])
			return
		}
		h.Functions[i] = r.Functions
	}
}

// functions names the frames of a stack. innermost means that the first frame is where
// the thread was.
func (s *Stage) functions(text []byte, frames []tracefs.Frame, out []resolve.Attribution, innermost bool) []symbol.Function {
	place, seen := s.memo.find(frames, out, innermost)
	if place != nil && place.is(frames, out, innermost) {
		return place.functions
	}
	list := make([]symbol.Function, len(frames))
	for k := range frames {
		list[k] = s.function(text, frames, out, k, innermost)
	}
	if seen && lasting(list) != nil {
		s.memo.keep(place, frames, out, innermost, list)
	}
	return list
}

// lasting returns functions whose names may be remembered, nil if one may not last.
func lasting(list []symbol.Function) []symbol.Function {
	if !openfile.KeepsMapped {
		return list
	}
	for i := range list {
		if n := list[i].Name; n != nil && n.Provisional {
			return nil
		}
	}
	return list
}

// function names a frame of a stack, and the function between it and the next one.
func (s *Stage) function(text []byte, frames []tracefs.Frame, out []resolve.Attribution, k int, innermost bool) (found symbol.Function) {
	f, o := &frames[k], &out[k]
	if o.File == nil {
		if o.Memory != nil {
			found.Name = symbol.OfMemory(o.Memory, o.Reason, o.At(text, f))
		}
		return found
	}
	at := symbol.Place{File: o.File, Offset: o.At(text, f), Ran: k == 0 && innermost || f.Interrupted()}
	found.Name = s.names.Name(at.File, at.Offset, at.Ran || f.Inferred())
	if k+1 < len(frames) {
		outer, by := &frames[k+1], &out[k+1]
		if by.File != nil && !f.Inferred() && !outer.Inferred() && !outer.Followed() {
			found.Skipped = s.names.Skipped(at, symbol.Place{File: by.File, Offset: by.At(text, outer), Calls: by.Calls})
		}
	}
	return found
}

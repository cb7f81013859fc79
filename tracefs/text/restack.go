package text

import (
	"bytes"
	"slices"

	"ustack/tracefs"
)

// Unwound is a stack that ustack has unwound. Record is its index in
// Batch.Records; its Frames are of FormPlain or, where they are the kernel's own of a
// deferred stack, of FormIdentifier.
type Unwound struct {
	Record int
	Frames []tracefs.Frame
}

// Restack gives stacks of a batch other frames, in its text too. The list is in
// the order of the records.
func Restack(b *tracefs.Batch, list []Unwound) { new(Restacker).Restack(b, list) }

// Restacker does as Restack, and uses the memory again that a batch had before. Its zero
// value is ready to use.
type Restacker struct {
	text   []byte
	frames []tracefs.Frame
}

// Restack implements the function of that name. What the batch had must not be in use
// elsewhere.
func (k *Restacker) Restack(b *tracefs.Batch, list []Unwound) {
	if len(list) == 0 {
		return
	}
	s := restacker{b: b, old: b.Text, frames: b.Frames}
	b.Text = slices.Grow(k.text[:0], len(s.old)+len(list)*512)
	b.Frames = slices.Grow(k.frames[:0], len(s.frames)+len(list)*16)
	k.text, k.frames = s.old, s.frames // read until the end of the call
	for i := range b.Records {
		r := &b.Records[i]
		s.copyTo(r.Off)
		if len(list) > 0 && list[0].Record == i {
			s.replace(r, list[0].Frames)
			list = list[1:]
			continue
		}
		s.move(r)
	}
	s.copyTo(uint32(len(s.old)))
	b.Lines += s.lines
}

// restacker rebuilds the text and the frames of a batch.
type restacker struct {
	b      *tracefs.Batch
	old    []byte
	frames []tracefs.Frame // as they were
	from   uint32          // what is before this in old is copied
	shift  uint32          // of what is after it, modulo 2^32
	lines  int64           // more than there were
}

// copyTo copies text.
func (s *restacker) copyTo(to uint32) {
	if to > s.from {
		s.b.Text = append(s.b.Text, s.old[s.from:to]...)
		s.from = to
	}
}

// move moves a record to where it is now.
func (s *restacker) move(r *tracefs.Record) {
	s.copyTo(r.End)
	switch {
	case r.Kind == tracefs.KindMappingEvent:
		e := s.b.MappingEvent(r) // points into what the next batch's text will overwrite
		e.Path, e.BuildID = bytes.Clone(e.Path), bytes.Clone(e.BuildID)
	case r.Kind != tracefs.KindStack:
	case r.Template != 0:
		r.FrameText += s.shift
	default:
		lo := uint32(len(s.b.Frames))
		for _, f := range s.frames[r.Lo:r.Hi] {
			if f.Off != f.End {
				f.Off, f.End, f.AddrEnd = f.Off+s.shift, f.End+s.shift, f.AddrEnd+s.shift
			}
			s.b.Frames = append(s.b.Frames, f)
		}
		r.Lo, r.Hi = lo, uint32(len(s.b.Frames))
	}
	r.Off, r.Body, r.End = r.Off+s.shift, r.Body+s.shift, r.End+s.shift
}

// linesOf returns how many lines a stack had.
func (s *restacker) linesOf(r *tracefs.Record) int64 {
	old := tracefs.Batch{Text: s.old, Frames: s.frames, Templates: s.b.Templates}
	return old.LinesOf(r)
}

// replace writes a stack.
func (s *restacker) replace(r *tracefs.Record, frames []tracefs.Frame) {
	b, text := s.b, r.Flags&tracefs.NoText == 0
	was := s.linesOf(r)
	off, end, at := uint32(len(b.Text)), r.End, uint32(len(b.Frames))
	b.Frames = append(b.Frames, frames...)
	frames = b.Frames[at:]
	if text {
		s.copyTo(r.Body)
		b.Text = appendUnwoundTitle(b.Text, r, frames)
	}
	for i := range frames {
		f := &frames[i]
		f.HasAddr, f.Off, f.End, f.AddrEnd = true, 0, 0, 0
		if text {
			b.Text = appendFrame(b.Text, f)
		}
	}
	s.from = end
	r.Body, r.Off, r.End = off+(r.Body-r.Off), off, uint32(len(b.Text))
	r.Lo, r.Hi, r.Template, r.FrameText = at, at+uint32(len(frames)), 0, 0
	s.lines += b.LinesOf(r) - was
	s.shift = r.End - end
}

// appendUnwoundTitle writes what a stack with other frames begins with, whole lines.
func appendUnwoundTitle(b []byte, r *tracefs.Record, frames []tracefs.Frame) []byte {
	if r.Flags&tracefs.Deferred == 0 {
		return append(AppendUnwound(append(b, titleStock...), frames), '\n')
	}
	b = append(AppendUnwound(append(b, titleDeferred...), frames), '\n')
	return append(AppendCookie(b, r.Value), '\n')
}

// appendFrame writes the line of a frame as the kernel does, and sets where it is.
func appendFrame(b []byte, f *tracefs.Frame) []byte {
	f.Off = uint32(len(b))
	b = tracefs.AppendAddrText(b, f.Addr)
	f.AddrEnd = uint32(len(b))
	if f.Form == tracefs.FormIdentifier {
		b = f.ID.Append(append(b, " : "...))
	}
	f.End = uint32(len(b))
	return append(b, '\n')
}

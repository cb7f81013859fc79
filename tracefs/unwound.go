package tracefs

import (
	"bytes"
	"strconv"
)

// How is how a frame of a stack was found that ustack has unwound itself.
type How uint8

// The ways.
const (
	// ByKernel: the kernel gave it, or another program's text.
	ByKernel How = iota
	// ByRegisters: the thread was there.
	ByRegisters
	// ByCFI: by .eh_frame or .debug_frame.
	ByCFI
	// BySFrame: by .sframe.
	BySFrame
	// ByGoTable: by the table of Go's runtime.
	ByGoTable
	// ByFramePointer: where there is no table.
	ByFramePointer
	// BySignal: by the registers that the kernel kept for a signal handler.
	BySignal

	howCount
)

var howWords = [howCount]string{"kernel", "registers", "cfi", "sframe", "gotable", "fp", "signal"}

// String returns the word used in all outputs.
func (h How) String() string { return howWords[min(h, howCount-1)] }

// Stop is why a stack that ustack has unwound itself ends where it does.
type Stop uint8

// The reasons.
const (
	NoStop  Stop = iota // it does not end with this frame, or that is not known
	AtRoot              // nothing has called the last frame
	AtCopy              // of the thread's stack, no more was copied
	AtFile              // the last frame's file says nothing about its code
	AtNoMap             // the next address is not known to be code
	AtContradiction
	AtLimit    // there are more frames than are kept
	AtRegister // a register is needed that is not known
	AtOtherStack
	AtSwitch // the code of the last frame goes from one stack to another

	stopCount
)

// StopCount is the number of reasons, NoStop included.
const StopCount = int(stopCount)

var stopWords = [stopCount]string{"", "root", "copy-too-short", "no-unwind-information", "no-map", "contradiction", "limit", "unknown-register", "other-stack", "stack-switch"}

// String returns the word used in all outputs.
func (s Stop) String() string { return stopWords[min(s, stopCount-1)] }

// noted is what ustack has noted of a frame, in one byte, as there are many frames: a
// Mark in the highest bits, and below it how the frame was found and why the stack ends
// with it, 0 for what the kernel has unwound.
type noted uint8

const markShift = 6

// All that can be noted has to fit into the bits below the Mark.
const _ = uint(1<<markShift - 1 - int(howCount-1)*StopCount)

// Unnote forgets all that ustack has noted of a frame, by Inferred too.
func (f *Frame) Unnote() { f.Inferred, f.noted = false, 0 }

// SetUnwound notes how a frame was found, and why the stack ends with it. A frame of
// the kernel's has no stop.
func (f *Frame) SetUnwound(how How, stop Stop) {
	f.noted = f.noted >> markShift << markShift
	if how != ByKernel {
		f.noted |= noted(how-1)*noted(StopCount) + noted(stop) + 1
	}
}

// Unwound returns how a frame was found, and why the stack ends with it;
// ByKernel and NoStop for what the kernel has unwound.
func (f *Frame) Unwound() (How, Stop) {
	n := f.noted & (1<<markShift - 1)
	if n == 0 {
		return ByKernel, NoStop
	}
	n--
	return How(n/noted(StopCount)) + 1, Stop(n % noted(StopCount))
}

// Mark returns what an earlier run of ustack has written about the frame's
// file.
func (f *Frame) Mark() Mark { return Mark(f.noted >> markShift) }

// SetMark notes a Mark.
func (f *Frame) SetMark(m Mark) { f.noted = f.noted&(1<<markShift-1) | noted(m)<<markShift }

// Interrupted reports whether a signal has interrupted the thread at the frame's
// address: it is no return address.
func (f *Frame) Interrupted() bool {
	how, _ := f.Unwound()
	return how == BySignal
}

// Followed reports whether ustack has found a frame by what is before it in the stack:
// then no function is missing between the two.
func (f *Frame) Followed() bool {
	how, _ := f.Unwound()
	return how != ByKernel
}

// StackTitle is what the kernel's text of a stock stack begins with.
const StackTitle = "<user stack trace>"

// AppendUnwound writes what stands after StackTitle if a stack was unwound by
// ustack, " unwound=registers,cfi*12 end=root".
func AppendUnwound(b []byte, frames []Frame) []byte {
	b = append(b, " unwound="...)
	stop := NoStop
	for i := 0; i < len(frames); {
		how, _ := frames[i].Unwound()
		n := i
		for ; n < len(frames); n++ {
			var next How
			if next, stop = frames[n].Unwound(); next != how {
				break
			}
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, how.String()...)
		if n-i > 1 {
			b = strconv.AppendInt(append(b, '*'), int64(n-i), 10)
		}
		i = n
	}
	if stop != NoStop {
		b = append(append(b, " end="...), stop.String()...)
	}
	return b
}

// ParseUnwound reads what AppendUnwound writes, and notes it in the frames, which may
// be nil. It reports false for any other text.
func ParseUnwound(text []byte, frames []Frame) bool {
	rest, ok := bytes.CutPrefix(text, []byte(" unwound="))
	if !ok {
		return false
	}
	list, end, ends := bytes.Cut(rest, []byte(" end="))
	stop := NoStop
	if ends {
		if stop = Stop(wordIndex(stopWords[1:], end) + 1); stop == NoStop {
			return false
		}
	}
	at, fewer := 0, false // frames than there were
	for item := range bytes.SplitSeq(list, []byte(",")) {
		word, count, counted := bytes.Cut(item, []byte("*"))
		how, n := wordIndex(howWords[:], word), 1
		if counted {
			var err error
			if n, err = strconv.Atoi(string(count)); err != nil {
				return false
			}
		}
		if how < 0 || n < 1 {
			return false
		}
		for ; n > 0 && at < len(frames); at++ {
			if !frames[at].Inferred { // which an earlier run has put there
				frames[at].SetUnwound(How(how), NoStop)
				n--
			}
		}
		fewer = fewer || n > 0
	}
	if n := len(frames); stop != NoStop && at == n && n > 0 && !fewer {
		how, _ := frames[n-1].Unwound()
		frames[n-1].SetUnwound(how, stop)
	}
	return true
}

// wordIndex returns where a word is in a list, -1 if it is not there.
func wordIndex(list []string, word []byte) int {
	for i := range list {
		if string(word) == list[i] {
			return i
		}
	}
	return -1
}

// Unwound is a stack that ustack has unwound. Record is its index in
// Batch.Records; its Frames are of FormPlain.
type Unwound struct {
	Record int
	Frames []Frame
}

// Restack gives stock stacks of a batch other frames, in its text too. The list is in
// the order of the records.
func (b *Batch) Restack(list []Unwound) {
	if len(list) == 0 {
		return
	}
	s := restacker{b: b, old: b.Text, frames: b.Frames}
	b.Text = make([]byte, 0, len(s.old)+len(list)*512)
	b.Frames = make([]Frame, 0, len(s.frames)+len(list)*16)
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
	b      *Batch
	old    []byte
	frames []Frame // as they were
	from   uint32  // what is before this in old is copied
	shift  uint32  // of what is after it, modulo 2^32
	lines  int64   // more than there were
}

// copyTo copies text.
func (s *restacker) copyTo(to uint32) {
	if to > s.from {
		s.b.Text = append(s.b.Text, s.old[s.from:to]...)
		s.from = to
	}
}

// move moves a record to where it is now.
func (s *restacker) move(r *Record) {
	s.copyTo(r.End)
	switch {
	case r.Kind != KindStack:
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
func (s *restacker) linesOf(r *Record) int64 {
	old := Batch{Text: s.old, Frames: s.frames, Templates: s.b.Templates}
	return old.LinesOf(r)
}

// replace writes a stack.
func (s *restacker) replace(r *Record, frames []Frame) {
	b, text := s.b, r.Flags&NoText == 0
	was := s.linesOf(r)
	off, end, at := uint32(len(b.Text)), r.End, uint32(len(b.Frames))
	b.Frames = append(b.Frames, frames...)
	frames = b.Frames[at:]
	if text {
		s.copyTo(r.Body)
		b.Text = append(AppendUnwound(append(b.Text, StackTitle...), frames), '\n')
	}
	for i := range frames {
		f := &frames[i]
		f.Form, f.HasAddr, f.Off, f.End, f.AddrEnd = FormPlain, true, 0, 0, 0
		if text {
			f.Off = uint32(len(b.Text))
			b.Text = AppendAddrText(b.Text, f.Addr)
			f.End = uint32(len(b.Text))
			f.AddrEnd = f.End
			b.Text = append(b.Text, '\n')
		}
	}
	s.from = end
	s.lines += int64(len(frames)) + 1 - was
	r.Body, r.Off, r.End = off+(r.Body-r.Off), off, uint32(len(b.Text))
	r.Lo, r.Hi, r.Template, r.FrameText = at, at+uint32(len(frames)), 0, 0
	s.shift = r.End - end
}

package input

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/text"
)

const (
	// blockSize is how much is read at once. It stays in the second level
	// cache while it goes through the pipe.
	blockSize = 128 << 10
	// maxRecord bounds a record; a larger one goes out in pieces. The
	// kernel's own bound is 8 KiB of text.
	maxRecord = 256 << 10
	// maxPrologue bounds what may stand before the first record: an input that is no
	// trace may have no end.
	maxPrologue = 1 << 30
	// shortLine is how many bytes a line counts as there, at least: each one is looked at.
	shortLine = 64
)

// Reader gives batches of records, io.EOF after the last one. A batch may
// come with an error: it holds what stood before the error.
type Reader interface {
	Next(b *tracefs.Batch) error
}

// ReadCloser is a Reader that holds files open.
type ReadCloser interface {
	Reader
	io.Closer
}

// source is one input, or one ring buffer of it, with a name for messages.
type source interface {
	Reader
	name() string
}

func (s *Source) name() string { return s.in.Name }

// Source reads the records of one input of text.
type Source struct {
	in   *File
	scan *text.Scanner
	// Pause is how long the input may give nothing before Next returns what
	// there is, 0 for ever. It matters to pipes only.
	Pause time.Duration

	tail   []byte // begun record
	retry  int    // scan again when the text is this long
	pos    int64  // of tail[0]
	line   int64
	headed bool // it has been looked whether the input is a file of ours
	ended  bool
	paused bool // the pause has been reported
	skip   bool // inside a line that is longer than any record
	// prologue is maxPrologue, but in tests.
	prologue int64
	// saved is the identifier in the head, nil as long as there is none.
	saved atomic.Pointer[string]
	// joined: another file has begun in the input.
	joined atomic.Bool
}

// newSource reads the records of an opened trace. With events the batches
// have Records of events too.
func newSource(in *File, events bool) *Source {
	s := text.NewScanner()
	s.Events = events
	if in.stacks != nil {
		s.UseMapStacks()
	}
	return &Source{in: in, scan: s, headed: in.foreign, prologue: maxPrologue}
}

// Next implements Reader.
func (s *Source) Next(b *tracefs.Batch) error {
	b.Reset()
	b.Pos, b.Line, b.Escaped = s.pos, s.line, s.scan.Escaped()
	if max(s.pos, s.line*shortLine) > s.prologue && !s.scan.Seen() {
		s.ended, s.tail = true, nil
		return fmt.Errorf("%s: %w: %d bytes, %d lines without one", s.in.Name, text.ErrNoRecords, s.pos, s.line)
	}
	b.Text = append(b.Text, s.tail...)
	if s.ended && len(b.Text) == 0 {
		return s.end()
	}
	more := text.MoreSoon
	for {
		wait, err := s.head(b)
		if err != nil {
			return err
		}
		switch {
		case wait && more != text.MoreLater:
		case s.skip:
			if s.skipLine(b) {
				return nil
			}
		case len(b.Text) >= s.retry && len(b.Text) > 0 || more == text.MoreLater:
			done, err := s.take(b, more)
			if done || err != nil {
				return err
			}
		}
		if s.ended && len(b.Text) == 0 {
			return s.end()
		}
		if s.ended {
			more = text.MoreNever
			s.retry = 0
			continue
		}
		if more, err = s.fill(b); err != nil {
			s.ended = true
			return s.fail(b, err)
		}
	}
}

// head takes the head of a file of ours off the beginning of the input. It must
// have more of that to decide if wait is true.
func (s *Source) head(b *tracefs.Batch) (wait bool, err error) {
	if s.headed {
		return false, nil
	}
	n, wait, err := text.CutHead(b.Text, s.ended)
	if err != nil {
		s.headed, s.ended = true, true
		b.Text = b.Text[:0]
		return false, fmt.Errorf("%s, line 1: %w", s.in.Name, err)
	}
	if wait {
		return true, nil
	}
	s.headed = true
	if n == 0 {
		return false, nil
	}
	s.scan.UseEscapes()
	saved := text.SavedID(b.Text[:n])
	s.saved.Store(&saved)
	if saved != "" {
		s.scan.UseSaved()
	}
	s.pos, s.line = int64(n), 1
	b.Text = b.Text[:copy(b.Text, b.Text[n:])]
	b.Pos, b.Line, b.Escaped = s.pos, s.line, true
	return false, nil
}

// fill reads more text after what there is.
func (s *Source) fill(b *tracefs.Batch) (text.More, error) {
	if len(b.Text) >= maxRecord {
		return text.MoreLater, nil
	}
	if s.in.wait != nil && s.Pause > 0 && !s.paused {
		ready, err := s.in.wait(s.Pause)
		if err != nil {
			return text.MoreSoon, err
		}
		if !ready {
			s.paused = true
			b.Paused = true
			return text.MoreLater, nil
		}
	}
	room(b)
	n, err := s.in.r.Read(b.Text[len(b.Text):cap(b.Text)])
	b.Text = b.Text[:len(b.Text)+n]
	if n > 0 {
		s.paused = false
	}
	if err == io.EOF {
		s.ended = true
		return text.MoreNever, nil
	}
	return text.MoreSoon, err
}

// room makes sure that there is place to read into.
func room(b *tracefs.Batch) {
	if cap(b.Text)-len(b.Text) >= blockSize/2 {
		return
	}
	grown := make([]byte, len(b.Text), 2*len(b.Text)+blockSize)
	copy(grown, b.Text)
	b.Text = grown
}

// take scans the text. done means that the batch is to go out.
func (s *Source) take(b *tracefs.Batch, more text.More) (done bool, err error) {
	all := b.Text
	if s.ended {
		more = text.MoreNever
	}
	used, err := s.scan.Scan(b, more)
	if s.scan.Joined() {
		s.joined.Store(true)
	}
	if used == 0 && err == nil && more != text.MoreNever {
		b.Text = all
		b.Records, b.Frames, b.MappingEvents, b.Events = b.Records[:0], b.Frames[:0], b.MappingEvents[:0], 0
		b.Templates = b.Templates[:0]
		if b.Paused {
			return s.out(b, nil, 0), nil
		}
		if more == text.MoreLater {
			// Not one whole line in all that room.
			s.skip = true
			s.scan.Skip()
			return s.skipLine(b), nil
		}
		s.retry = 0
		if len(all) > 64<<10 {
			// With all the room taken there is a look, too, that leaves the last record alone.
			s.retry = min(2*len(all), maxRecord)
		}
		return false, nil
	}
	if err != nil {
		s.ended = true
		line := s.line + b.Lines + 1
		s.out(b, nil, used)
		return true, fmt.Errorf("%s, line %d: %w", s.in.Name, line, err)
	}
	return s.out(b, all[used:], used), nil
}

// out sends a batch away and keeps the rest of the text.
func (s *Source) out(b *tracefs.Batch, rest []byte, used int) bool {
	if used == 0 && b.Paused {
		rest = b.Text
		b.Text = b.Text[:0]
		b.Lines = 0
	}
	s.tail = append(s.tail[:0], rest...)
	s.pos += int64(used)
	s.line += b.Lines
	s.retry = 0
	return true
}

// skipLine takes text up to the next line feed as it is.
func (s *Source) skipLine(b *tracefs.Batch) bool {
	if len(b.Text) == 0 {
		return false
	}
	n := bytes.IndexByte(b.Text, '\n') + 1
	rest := b.Text[n:]
	if n == 0 {
		n, rest = len(b.Text), nil
	} else {
		s.skip = false
		b.Lines = 1
	}
	s.tail = append(s.tail[:0], rest...)
	b.Text = b.Text[:n]
	b.Records = append(b.Records, tracefs.Record{End: uint32(n), Kind: tracefs.KindNote, TID: tracefs.NoTID,
		CPU: tracefs.NoCPU, Flags: tracefs.Cut})
	s.pos += int64(n)
	s.line += b.Lines
	return true
}

// fail ends the input with an error that says where.
func (s *Source) fail(b *tracefs.Batch, err error) error {
	at := s.pos + int64(len(b.Text))
	where := "byte"
	if s.in.Compressed() {
		where = "byte (of the decompressed text)"
	}
	used, _ := s.scan.Scan(b, text.MoreNever)
	s.out(b, nil, used)
	if s.in.stacks != nil {
		return fmt.Errorf("reading %s: %w", s.in.Name, err)
	}
	return fmt.Errorf("reading %s at %s %d: %w", s.in.Name, where, at, err)
}

// end is what an input without any record ends with.
func (s *Source) end() error {
	if !s.scan.Seen() && s.pos > 0 && !s.scan.OnlyComments() {
		return fmt.Errorf("%s: %w", s.in.Name, text.ErrNoRecords)
	}
	return io.EOF
}

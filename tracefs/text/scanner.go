package text

import "ustack/tracefs"

// More is what may follow the text that a Scanner is given.
type More uint8

const (
	// MoreSoon says that the text goes on: the last record is left alone
	// until its end is seen.
	MoreSoon More = iota
	// MoreLater says that the text may go on, but not now (a pause, or a
	// full buffer): all whole lines are taken, and what follows them may
	// continue the last record.
	MoreLater
	// MoreNever says that the input ends here.
	MoreNever
)

// Scanner finds the records in a stream of text. It keeps two facts about the
// text before: the layout, and the record that a pause broke off.
//
// A record begins with a header and goes on to the next header, so its end is
// known only then. Lines without a header belong to the record before them;
// they are frames only if that record is a user stack, and only up to the
// first line that is none: free text (trace_marker) can look like anything.
type Scanner struct {
	// Events asks for Records of events, gaps and notes too. Without it
	// their text passes through unseen.
	Events bool

	escaped   bool   // see UseEscapes
	saved     bool   // see UseSaved
	joined    bool   // the text is of another file than its beginning
	layout    layout // nil until the first header
	columns   *columns
	tries     []layout
	clock     clock // of the last header
	open      open
	refusal   refusal
	hex       hexCache
	templates *templates // nil: no templates
	maps      *mapStacks // the text is of BPF maps, nil for that of an ftrace
	ahead     mapsAhead  // what came before the first header
	headed    int        // where in the text that header is
	slow      bool       // tests only: every line the long way
}

// open is the record that the scanner is in.
type open struct {
	kind  tracefs.Kind // 0: none yet
	form  bodyForm
	stack stackState
	// carried is set if an earlier batch has the record's beginning; left is the
	// base of a Record of the rest.
	carried bool
	start   int // where it begins in the text
	rec     int // index in Batch.Records, -1 if it has no Record
	// unwound is the note in the title of a stack that ustack has unwound.
	unwound []byte
	left    tracefs.Record
}

// stackState is whether lines can be frames.
type stackState uint8

const (
	noFrames     stackState = iota
	wantCookie              // a cookie line, or frames
	wantFrames              // frames
	reportFrames            // frames of trace-cmd report
)

// NewScanner returns a scanner at the beginning of an input.
func NewScanner() *Scanner {
	return &Scanner{tries: layouts(false)}
}

// UseEscapes makes the scanner read text that ustack has written: see CutHead.
// It must not have read anything yet.
func (s *Scanner) UseEscapes() { s.escaped, s.tries = true, layouts(true) }

// UseSaved says that the text was saved with address spaces (SavedID).
func (s *Scanner) UseSaved() { s.saved = true }

// UseTemplates makes the scanner put stacks that it has seen before into batches
// as Templates.
func (s *Scanner) UseTemplates() { s.templates = new(templates) }

// UseMapStacks makes the scanner read text of BPF maps from here on, see mapStacks. It
// finds out by itself, but for text whose first stack has nothing that shows it.
func (s *Scanner) UseMapStacks() { s.maps = new(mapStacks) }

// Joined reports whether another file has begun in the text, see tracefs.Joined.
func (s *Scanner) Joined() bool { return s.joined }

// Escaped reports whether it reads text that ustack has written.
func (s *Scanner) Escaped() bool { return s.escaped }

// Layout names the layout of the headers, "" before the first one.
func (s *Scanner) Layout() string {
	if s.layout == nil {
		return ""
	}
	return s.layout.name()
}

// Seen reports whether any record has been found, or the text is of BPF maps.
func (s *Scanner) Seen() bool { return s.layout != nil || s.maps != nil }

// Scan finds the records in b.Text, which goes on where the last Scan
// stopped, and appends them to b. It returns how much of the text they are;
// the caller gives the rest again, with more after it.
//
// An error is about the whole input (a layout that cannot be used); b has the
// records before it.
func (s *Scanner) Scan(b *tracefs.Batch, more More) (int, error) {
	if readsMaps && s.maps != nil {
		return s.scanMaps(b, more), nil
	}
	all, begun := b.Text, s.layout != nil
	used, err := s.scan(b, more)
	if !readsMaps || begun {
		return used, err
	}
	before := all[:used]
	switch {
	case err != nil:
		before = all
	case s.layout != nil:
		before = all[:s.headed]
	}
	if !s.ahead.hasStack(before) {
		return used, err
	}
	s.layout, s.columns = nil, nil
	s.UseMapStacks()
	*b = tracefs.Batch{Text: all, Records: b.Records[:0], Frames: b.Frames[:0], MappingEvents: b.MappingEvents[:0],
		Heads: b.Heads[:0], Templates: b.Templates[:0], Pos: b.Pos, Line: b.Line, Paused: b.Paused}
	return s.scanMaps(b, more), nil
}

// scan finds the records of an ftrace.
func (s *Scanner) scan(b *tracefs.Batch, more More) (int, error) {
	if s.templates != nil {
		s.templates.newScan()
	}
	w := walk{s: s, b: b, o: s.resume(b), stop: len(b.Text), join: s.join()}
	b.Lines, b.Escaped = 0, s.escaped
	if s.clock.colon != 0 {
		w.timed(&s.clock)
	}
	err := w.lines(more)
	used := w.finish(more)
	w.sum(used)
	w.joinedRecords(used)
	return used, err
}

// resume opens the record that the last Scan broke off, if any.
func (s *Scanner) resume(b *tracefs.Batch) open {
	o := s.open
	s.open = open{}
	o.start, o.rec, o.unwound = 0, -1, nil
	o.carried = o.kind != 0
	if o.kind == tracefs.KindStack || o.kind != 0 && s.Events {
		o.rec = len(b.Records)
		rest := o.left
		rest.Off, rest.End, rest.Body, rest.Lo, rest.Hi = 0, 0, 0, 0, 0
		rest.Item, rest.Template, rest.FrameText = 0, 0, 0
		rest.Kind = o.kind
		if o.kind == tracefs.KindMappingEvent || o.kind == tracefs.KindCookie {
			rest.Kind = tracefs.KindNote
		}
		rest.Flags |= tracefs.Continued
		if rest.Kind != tracefs.KindStack {
			rest.Value = 0
		}
		b.Records = append(b.Records, rest)
	}
	return o
}

// Skip notes that the next text is the inside of a line that belongs to no record.
func (s *Scanner) Skip() {
	s.open = open{kind: tracefs.KindNote, rec: -1}
	s.refusal.lines++
}

// OnlyComments reports whether nothing but header comments and blank lines
// has been seen before the first record.
func (s *Scanner) OnlyComments() bool { return s.refusal.lines == 0 }

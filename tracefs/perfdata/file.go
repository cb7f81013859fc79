package perfdata

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/format"
	"ustack/tracefs/perf"
	"ustack/tracefs/tracedat"
)

// magic is what a file begins with, in its byte order.
const (
	magicLittle = "PERFILE2"
	magicBig    = "2ELIFREP"
	magicSize   = 8
	pipeHeader  = 16
	fileHeader  = 104
)

// Is reports whether the first bytes are those of a perf.data.
func Is(head []byte) bool {
	const least = 4
	if len(head) > magicSize {
		head = head[:magicSize]
	}
	return len(head) >= least && (string(head) == magicLittle[:len(head)] || string(head) == magicBig[:len(head)])
}

// File is an opened perf.data.
type File struct {
	// Release is the kernel's, Arch the machine's, as uname has them; "" if unknown.
	Release, Arch string
	// Host is the name of the machine, or of the container that perf was in; "" if unknown.
	Host string
	// BuildIDs is perf's list of files.
	BuildIDs []BuildID
	// Notes are remarks about the file itself.
	Notes []string

	r      io.ReaderAt
	size   int64
	order  order
	events events
	kernel binary.Kernel
	// parts have the records: the file itself, and the other files of a directory.
	parts []*part
	pipe  bool // attributes and features are records
	// unended is set if perf was killed before it wrote the features.
	unended bool
	err     error
	// convert is how times become those of another clock, nil if they stay.
	convert func(uint64) uint64
	tsc     *timeConv  // nil if the file has none
	wall    *clockData // nil if the file has none
	spaces  *spaces    // once SideBand has found them
	args    []string   // of perf, none if unknown
	online  int        // CPUs, 0 if unknown
}

// section is a part of a file.
type section struct{ at, size int64 }

func (f *File) section(b []byte) section {
	return section{int64(f.order.u64(b)), int64(f.order.u64(b[8:]))}
}

// within returns an error unless a section is in the file, and of at most so many bytes.
func (f *File) within(s section, most int64) error {
	if s.at < 0 || s.size < 0 || s.at > f.size || s.size > f.size-s.at || s.size > most {
		return malformed(s.at, "a section of %d bytes, in a file of %d", s.size, f.size)
	}
	return nil
}

// read reads a section of at most so many bytes.
func (f *File) read(s section, most int64) ([]byte, error) {
	if err := f.within(s, most); err != nil {
		return nil, err
	}
	b := make([]byte, s.size)
	if n, err := f.r.ReadAt(b, s.at); n < len(b) {
		return nil, fmt.Errorf("reading byte %d: %w", s.at+int64(n), err)
	}
	return b, nil
}

// Open reads the head of a perf.data. If a section after the data cannot be read, the
// error is the last one of reading the records.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size, parts: []*part{newPart("", r, size)}}
	head := make([]byte, fileHeader)
	n, err := r.ReadAt(head, 0)
	if n < pipeHeader {
		return nil, fmt.Errorf("reading the head of a perf.data: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	switch string(head[:magicSize]) {
	case magicLittle:
	case magicBig:
		f.order.big = true
	default:
		return nil, malformed(0, "it begins with %q", head[:magicSize])
	}
	f.events.order = f.order
	f.kernel.Layout.Page = *format.DefaultPage()
	f.kernel.Layout.BigEndian = f.order.big
	switch headSize := f.order.u64(head[8:]); {
	case headSize == pipeHeader:
		f.pipe = true
		f.parts[0].data = section{pipeHeader, size - pipeHeader}
		err = f.scanPipe()
	case n < fileHeader:
		err = malformed(int64(n), "the file ends in its header")
	case headSize != fileHeader:
		err = malformed(8, "a header of %d bytes", headSize)
	default:
		err = f.readHead(head)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the head of a perf.data: %w", err)
	}
	f.kernel.Clock = f.events.clock()
	f.readFirst()
	if f.kernel.Release == "" {
		f.kernel.Release = f.Release
	}
	return f, nil
}

// readHead reads the events and the sections that the header names.
func (f *File) readHead(head []byte) error {
	attrSize := int64(f.order.u64(head[16:]))
	attrs, data := f.section(head[24:]), f.section(head[40:])
	if err := f.attributes(attrs, attrSize); err != nil {
		return err
	}
	if data.size == 0 { // it is written when perf record ends
		f.Notes = append(f.Notes, "perf record did not end this file: its head does not say how long it is, and what perf writes at the end is missing")
		data.size = f.size - data.at
		f.unended = true
	}
	if data.at < fileHeader || data.at > f.size || data.size < 0 {
		return malformed(40, "data of %d bytes from byte %d on", data.size, data.at)
	}
	f.parts[0].data = data
	f.err = f.features(head[72:fileHeader])
	return nil
}

// attributes reads the section of the events: each an attribute and where its numbers are.
func (f *File) attributes(s section, size int64) error {
	const ids = 16
	if size < minAttr+ids || size > maxAttr {
		return malformed(16, "attributes of %d bytes", size)
	}
	b, err := f.read(s, maxEvents*size)
	if err != nil {
		return err
	}
	for at := s.at; int64(len(b)) >= size; at, b = at+size, b[size:] {
		a, ok := parseAttr(f.order, b[:size-ids])
		if !ok {
			return malformed(at, "an attribute is too short")
		}
		list, err := f.read(f.section(b[size-ids:]), 8*maxIDs)
		if err == nil {
			err = f.events.add(a, list)
		}
		if err != nil {
			return err
		}
	}
	if len(f.events.list) == 0 {
		return malformed(s.at, "no event")
	}
	return nil
}

// features reads the sections after the data, which are in the order of their bits.
// Each that cannot be read is an error of its own.
func (f *File) features(bitmap []byte) error {
	const entry = 16
	var errs []error
	at := f.parts[0].data.at + f.parts[0].data.size
	for bit := range maxFeature {
		word := f.order.u64(bitmap[bit/64*8:])
		if word>>(bit%64)&1 == 0 {
			continue
		}
		b, err := f.read(section{at, entry}, entry)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("reading feature %d: %w", bit, err))...)
		}
		at += entry
		if s := f.section(b); !wanted[bit] {
			err = f.within(s, f.size)
		} else if b, err = f.read(s, maxSection); err == nil {
			err = f.feature(bit, b)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("reading feature %d: %w", bit, err))
		}
	}
	return errors.Join(errs...)
}

var wanted = map[int]bool{featureTracingData: true, featureBuildID: true, featureHost: true, featureRelease: true, featureArch: true, featureEventDesc: true,
	featureDirFormat: true, featureClockData: true, featureCPUs: true, featureCommandLine: true}

// tracingData reads what tracefs had (HEADER_TRACING_DATA), in the layout of a trace.dat.
func (f *File) tracingData(b []byte) error {
	if err := tracedat.ReadKernel(b, &f.kernel); err != nil {
		return fmt.Errorf("reading the formats of events: %w", err)
	}
	return nil
}

// records returns the records of the file from its first one on.
func (f *File) records(read func(int)) *stream {
	return f.parts[0].records(f.order, &slabs{size: slabSize}, read)
}

// counting reports what is read.
type counting struct {
	r    io.Reader
	read func(int)
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read(n)
	return n, err
}

// DataSize returns the number of bytes of records.
func (f *File) DataSize() (n int64) {
	for _, p := range f.parts {
		n += p.length()
	}
	return n
}

// Clock returns the trace clock of the times, "" if the events do not agree.
func (f *File) Clock() string { return f.kernel.Clock }

// scanPipe reads the attributes and features in a file that went through a pipe: they are
// records among the others. An error is that of reading the records, later.
func (f *File) scanPipe() error {
	s := f.records(nil)
	defer s.close()
	for {
		rec, h, _, err := s.next()
		if err != nil {
			break
		}
		if err := f.headRecord(s, h, rec); err != nil {
			f.err = errors.Join(f.err, err)
		}
	}
	if len(f.events.list) == 0 {
		return malformed(pipeHeader, "no event")
	}
	return nil
}

// headRecord reads a record that has a part of the head.
func (f *File) headRecord(s *stream, h header, rec []byte) error {
	body := rec[headerSize:]
	v := fields{order: f.order, rest: body}
	switch h.typ {
	case recordHeaderAttr:
		return f.attrRecord(s, body)
	case recordTracingData:
		b, err := s.outer.take(int64(padded(v.word32())))
		if err != nil {
			return nil // reading the records reports it
		}
		return f.tracingData(b)
	case recordBuildID:
		f.buildID(h, rec)
	case recordEventUpdate:
		const named = 2 // PERF_EVENT_UPDATE__NAME
		if what, id := v.word64(), v.take(8); what == named && id != nil {
			f.name(id, string(upToNUL(v.rest)))
		}
	case recordFeature:
		if bit := v.word64(); bit < maxFeature && wanted[int(bit)] && bit != featureTracingData {
			return f.feature(int(bit), v.rest)
		}
	case recordAuxTrace:
		_ = s.outer.skip(int64(min(v.word64(), 1<<62)))
	}
	return nil
}

// attrRecord reads an attribute with its numbers.
func (f *File) attrRecord(s *stream, body []byte) error {
	if len(body) < minAttr {
		return malformed(s.outer.pos, "before it: an attribute is too short")
	}
	size := int(f.order.u32(body[4:]))
	if size < minAttr || size > len(body) {
		return malformed(s.outer.pos, "before it: an attribute of %d bytes", size)
	}
	a, _ := parseAttr(f.order, body[:size])
	return f.events.add(a, body[size:])
}

// padded returns a size in whole words.
func padded(n uint32) uint64 { return (uint64(n) + 7) &^ 7 }

// SideBand passes the records about mappings, threads, names and losses to take, in order
// of time: the ones that perf has made of /proc first. A record is valid until take
// returns. An error that ends the reading is the one that reading the samples meets, too.
func (f *File) SideBand(take func(*perf.Record)) {
	spaces := newSpaces()
	f.spaces = spaces
	defer spaces.sort()
	o := newOrdered(f, nil)
	defer o.close()
	o.beside = true
	lost := losses{events: &f.events}
	var r perf.Record
	for {
		b, h, err := o.next()
		if err != nil {
			break
		}
		if ok, _ := f.sideBand(h, b, &r); !ok {
			continue
		}
		if r.Type == unix.PERF_RECORD_LOST {
			r.LostFrom = min(f.time(o.queue.before()), r.Time)
		}
		lost.note(&r)
		if !atEnd(&r) {
			spaces.note(&r)
			take(&r)
		}
	}
	if r, ok := lost.unrecorded(f.time(o.queue.before())); ok {
		spaces.note(&r)
		take(&r)
	}
}

// Changed notes that a record of another process has changed what is known of a process from a
// time on. It may be called by the function that SideBand has been given.
func (f *File) Changed(pid int, t tracefs.Time) { f.spaces.changed(int32(pid), uint64(t)) }

// changes returns when processes have changed.
func (f *File) changes() *spaces {
	if f.spaces == nil {
		f.SideBand(func(*perf.Record) {})
	}
	return f.spaces
}

// Copies reports whether samples have copies of registers and stacks.
func (f *File) Copies() bool {
	for _, a := range f.events.list {
		if a.has(unix.PERF_SAMPLE_REGS_USER) && a.has(unix.PERF_SAMPLE_STACK_USER) {
			return true
		}
	}
	return false
}

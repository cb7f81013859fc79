package perfdata

import "io"

// part is a file with records. A directory of perf record --threads has several: each thread
// of perf has written the rings of some CPUs to one of its own.
type part struct {
	name string // for messages, "" for the file itself
	r    io.ReaderAt
	size int64
	data section
	// floors are times: no record from block*k on is before floors[k]. It is nil as long as
	// they were not looked for.
	floors []uint64
	block  int // blockRecords, but in tests
}

// blockRecords is how many records a block has: floors are known for each.
const blockRecords = 4096

func newPart(name string, r io.ReaderAt, size int64) *part {
	return &part{name: name, r: r, size: size, data: section{0, size}, block: blockRecords}
}

// length returns the number of bytes of records that are there.
func (p *part) length() int64 { return min(p.data.size, p.size-p.data.at) }

// records returns the records of the part from its first one on.
func (p *part) records(o order, to *slabs, read func(int)) *stream {
	r := io.Reader(io.NewSectionReader(p.r, p.data.at, p.length()))
	if read != nil {
		r = &counting{r, read}
	}
	return newStream(o, to, r, p.data.at)
}

// truncated returns the error of the end: a file may be shorter than its head says.
func (p *part) truncated(s *stream, err error) error {
	switch {
	case err == io.ErrUnexpectedEOF, err == io.EOF && p.data.size > p.size-p.data.at:
		return malformed(s.outer.pos, "the file ends, its records should go on until byte %d", p.data.at+p.data.size)
	case err == io.EOF:
		return io.EOF
	}
	return err
}

// findFloors reads the part for its floors. What ends the reading early ends the next one, too,
// which reports it.
func (p *part) findFloors(f *File) {
	s := p.records(f.order, &slabs{size: slabSize}, nil)
	defer s.close()
	p.floors = p.floors[:0]
	for n := 0; ; n++ {
		if n%p.block == 0 {
			p.floors = append(p.floors, latest)
		}
		rec, h, _, err := s.next()
		if err == nil {
			err = s.follows(h, rec)
		}
		if err != nil {
			break
		}
		if h.typ < firstUserRecord {
			last := &p.floors[len(p.floors)-1]
			*last = min(*last, f.events.when(h, rec))
		}
	}
	for k := len(p.floors) - 1; k > 0; k-- {
		p.floors[k-1] = min(p.floors[k-1], p.floors[k])
	}
}

// latest is later than all times.
const latest = ^uint64(0)

package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
	"ustack/tracefs/tracedat"
)

// SavedMaps writes mappings that trace-cmd has saved in a trace.dat, in the
// columns and keys of MapsTable, MapsJSON and MapsFiles. Fields that are not
// saved are "?" in text, and no key in JSON: name of the task, permissions,
// offset, device, inode, build ID, and the kind of a mapping with a path. A path
// that is known to be cut at a blank has "?" after the blank, and the key
// path_prefix in JSON.
type SavedMaps struct {
	w     io.Writer
	buf   []byte
	json  bool
	files map[savedName]*savedFile // nil if not asked for
}

type savedName struct {
	name string
	cut  bool
}

// rank orders equal names.
func (n savedName) rank() int {
	if n.cut {
		return 1
	}
	return 0
}

// savedFile counts where a name was mapped.
type savedFile struct {
	savedName
	pids     map[int32]bool
	mappings int
}

// NewSavedMaps returns a list on w: of mappings, or of distinct files, a table
// or lines of JSON.
func NewSavedMaps(w io.Writer, json, files bool) *SavedMaps {
	s := &SavedMaps{w: w, json: json}
	switch {
	case files:
		s.files = make(map[savedName]*savedFile)
	case !json:
		s.buf = appendMapsHead(nil)
	}
	return s
}

// Process writes the mappings of a process.
func (s *SavedMaps) Process(p *tracedat.Process) error {
	for i := range p.Ranges {
		r := &p.Ranges[i]
		switch {
		case s.files != nil:
			s.count(p, r)
		case s.json:
			s.buf = appendSavedRange(appendSavedProcess(s.buf, p), p, r)
			s.buf = append(s.buf, "}\n"...)
		default:
			s.row(p, r)
		}
		if len(s.buf) >= flushAt {
			if err := flush(s.w, &s.buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close writes the rest.
func (s *SavedMaps) Close() error {
	if s.files != nil {
		s.list()
	}
	return flush(s.w, &s.buf)
}

func (s *SavedMaps) row(p *tracedat.Process, r *tracedat.Range) {
	b := appendRight(s.buf, strconv.Itoa(int(p.PID)), 7)
	b = appendCell(append(b, ' '), "?", 15)
	from := len(b)
	b = append(appendPlainHex(b, r.Start, 8), '-')
	b = appendPlainHex(b, r.End, 8)
	b = appendBlanks(b, rangeWidth-(len(b)-from))
	b = fmt.Appendf(b, " %-5s %8s %-5s %8s %-*s ", "?", "?", "?", "?", idWidth, "?")
	s.buf = append(appendSavedName(b, r.Name, p.Cut(r.Name)), '\n')
}

func appendSavedName(b []byte, name string, cut bool) []byte {
	b = escape.Append(b, []byte(name))
	if cut {
		b = append(b, " ?"...)
	}
	return b
}

func appendSavedPath(b []byte, name string, cut bool) []byte {
	key := "path"
	if cut {
		key = "path_prefix"
	}
	return appendText(b, key, []byte(name))
}

func appendSavedProcess(b []byte, p *tracedat.Process) []byte {
	b = strconv.AppendInt(append(b, `{"pid":`...), int64(p.PID), 10)
	return appendText(b, "exe", []byte(p.Exe))
}

func appendSavedRange(b []byte, p *tracedat.Process, r *tracedat.Range) []byte {
	b = appendHex(append(b, `,"start":`...), r.Start)
	b = appendHex(append(b, `,"end":`...), r.End)
	b = appendSavedPath(b, r.Name, p.Cut(r.Name))
	if !bracketed(r.Name) || !strings.HasSuffix(r.Name, "]") {
		return b
	}
	b = append(b, `,"kind":"`...)
	return append(append(b, procmap.Classify(r.Name, procmap.Dev{}, 0).String()...), '"')
}

// count notes that a name was mapped. Memory is no file.
func (s *SavedMaps) count(p *tracedat.Process, r *tracedat.Range) {
	if bracketed(r.Name) {
		return
	}
	key := savedName{r.Name, p.Cut(r.Name)}
	f := s.files[key]
	if f == nil {
		f = &savedFile{savedName: key, pids: make(map[int32]bool)}
		s.files[key] = f
	}
	f.pids[p.PID] = true
	f.mappings++
}

// list writes the files, the ones that most processes have first.
func (s *SavedMaps) list() {
	var rows []*savedFile
	for _, f := range s.files {
		rows = append(rows, f)
	}
	slices.SortFunc(rows, func(a, b *savedFile) int {
		return cmp.Or(cmp.Compare(len(b.pids), len(a.pids)), cmp.Compare(a.name, b.name), cmp.Compare(a.rank(), b.rank()))
	})
	if !s.json {
		s.buf = appendFilesHead(s.buf)
	}
	for _, f := range rows {
		if s.json {
			s.buf = fmt.Appendf(s.buf, `{"processes":%d,"mappings":%d`, len(f.pids), f.mappings)
			s.buf = append(appendSavedPath(s.buf, f.name, f.cut), "}\n"...)
			continue
		}
		s.buf = fmt.Appendf(s.buf, "%9d %-5s %8s %-*s ", len(f.pids), "?", "?", idWidth, "?")
		s.buf = append(appendSavedName(s.buf, f.name, f.cut), '\n')
	}
}

// bracketed reports whether a name is the kernel's for memory without a file. It
// ends with a bracket, too, unless it was cut.
func bracketed(name string) bool { return strings.HasPrefix(name, "[") }

// SavedAddresses writes the saved mappings at addresses of a process, from a
// trace.dat: a name, and the offset in the mapping.
type SavedAddresses struct {
	w    io.Writer
	buf  []byte
	json bool
}

// NewSavedAddresses returns a list on w, text or lines of JSON.
func NewSavedAddresses(w io.Writer, json bool) *SavedAddresses {
	return &SavedAddresses{w: w, json: json}
}

// Address writes one address of a process. r is nil if no saved mapping has it.
func (s *SavedAddresses) Address(p *tracedat.Process, addr uint64, r *tracedat.Range) error {
	if s.json {
		b := appendHex(append(appendSavedProcess(s.buf, p), `,"address":`...), addr)
		if r == nil {
			b = append(append(append(b, `,"reason":"`...), filemap.NoAddressSpace.String()...), '"')
		} else {
			b = appendHex(append(appendSavedRange(b, p, r), `,"vma_offset":`...), addr-r.Start)
		}
		s.buf = append(b, "}\n"...)
	} else {
		s.text(p, addr, r)
	}
	if len(s.buf) < flushAt {
		return nil
	}
	return s.Flush()
}

// Flush writes the buffer.
func (s *SavedAddresses) Flush() error { return flush(s.w, &s.buf) }

func (s *SavedAddresses) text(p *tracedat.Process, addr uint64, r *tracedat.Range) {
	b := append(appendPlainHex(append(s.buf, "0x"...), addr, 1), " ? ? "...)
	if r == nil {
		b = append(b, filemap.NoAddressSpace.String()...)
	} else {
		b = text.AppendObject(appendSavedName(b, r.Name, p.Cut(r.Name)), nil, addr-r.Start)
	}
	s.buf = append(b, '\n')
}

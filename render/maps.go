package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs/escape"
)

// A MapsWriter writes the mappings of processes. Close writes the rest.
type MapsWriter interface {
	Process(p *procmap.Process) error
	Close() error
}

// MapsTable writes mappings for people, a line each.
type MapsTable struct {
	w      io.Writer
	buf    []byte
	headed bool
}

// NewMapsTable returns a table on w.
func NewMapsTable(w io.Writer) *MapsTable { return &MapsTable{w: w} }

// Widths of the columns of addresses and build IDs: most fit.
const (
	rangeWidth = len("7f0123456000-7f0123457000")
	idWidth    = 2 * elfid.Max
)

// Process implements MapsWriter.
func (t *MapsTable) Process(p *procmap.Process) error {
	if !t.headed {
		t.headed = true
		t.buf = appendMapsHead(t.buf)
	}
	for i := range p.Mappings {
		t.row(p, &p.Mappings[i])
	}
	if len(t.buf) < flushAt {
		return nil
	}
	return t.Close()
}

func appendMapsHead(b []byte) []byte {
	return fmt.Appendf(b, "%7s %-15s %-*s %-5s %8s %-5s %8s %-*s %s\n",
		"PID", "COMM", rangeWidth, "RANGE", "PERMS", "OFFSET", "DEV", "INODE", idWidth, "BUILD-ID", "PATH")
}

// Close implements MapsWriter.
func (t *MapsTable) Close() error { return flush(t.w, &t.buf) }

func (t *MapsTable) row(p *procmap.Process, m *procmap.Mapping) {
	b := appendRight(t.buf, strconv.Itoa(p.PID), 7)
	b = append(b, ' ')
	b = appendCell(b, p.Stat.Comm, 15)
	from := len(b)
	b = appendPlainHex(b, m.Start, 8)
	b = append(b, '-')
	b = appendPlainHex(b, m.End, 8)
	b = append(appendBlanks(b, rangeWidth-(len(b)-from)), ' ')
	b = m.Perms.Append(b)
	b = append(b, "  "...)
	b = appendPlainHex(b, m.Offset, 8)
	b = append(b, ' ')
	b = m.Dev.Append(b)
	b = append(b, ' ')
	b = appendRight(b, strconv.FormatUint(m.Inode, 10), 8)
	b = append(b, ' ')
	b = appendBuildID(b, m.BuildID)
	b = append(b, ' ')
	t.buf = append(appendName(b, m), '\n')
}

// appendName appends the path of a mapping on one line.
func appendName(b []byte, m *procmap.Mapping) []byte {
	if m.Kind == procmap.Anonymous {
		return append(b, "[anon]"...)
	}
	return escape.Append(b, []byte(m.Name))
}

func appendBuildID(b []byte, id elfid.ID) []byte {
	if id.IsZero() {
		b = append(b, '-')
		return appendBlanks(b, idWidth-1)
	}
	b = id.AppendHex(b)
	return appendBlanks(b, idWidth-2*id.Len())
}

// appendCell appends text in a column of some width, and a blank.
func appendCell(b []byte, text string, width int) []byte {
	from := len(b)
	b = escape.Append(b, []byte(text))
	return append(appendBlanks(b, width-utf8.RuneCount(b[from:])), ' ')
}

func appendRight(b []byte, text string, width int) []byte {
	return append(appendBlanks(b, width-len(text)), text...)
}

func appendBlanks(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}

// appendPlainHex appends v without 0x, with at least width digits.
func appendPlainHex(b []byte, v uint64, width int) []byte {
	return fmt.Appendf(b, "%0*x", width, v)
}

// flush writes a buffer out.
func flush(w io.Writer, buf *[]byte) error {
	if len(*buf) == 0 {
		return nil
	}
	_, err := w.Write(*buf)
	*buf = (*buf)[:0]
	return err
}

// MapsFiles writes the distinct files that are mapped, the ones that most
// processes have first.
type MapsFiles struct {
	w    io.Writer
	json bool
	rows map[fileRowKey]*fileRow
}

// fileRowKey is what makes a file distinct. The build ID is part of it where device
// and inode do not identify files (btrfs).
type fileRowKey struct {
	id         procmap.FileID
	generation uint32
	buildID    elfid.ID
}

type fileRow struct {
	mapping   procmap.Mapping // the first one
	processes int
	mappings  int
	pid       int // the last process that was counted
}

// NewMapsFiles returns a list of files on w, a table or lines of JSON.
func NewMapsFiles(w io.Writer, json bool) *MapsFiles {
	return &MapsFiles{w: w, json: json, rows: make(map[fileRowKey]*fileRow)}
}

// Process implements MapsWriter.
func (f *MapsFiles) Process(p *procmap.Process) error {
	for i := range p.Mappings {
		m := &p.Mappings[i]
		if !m.Kind.HasFile() {
			continue
		}
		key := fileRowKey{procmap.FileID{Dev: m.Dev, Inode: m.Inode}, m.Generation, m.BuildID}
		row := f.rows[key]
		if row == nil {
			row = &fileRow{mapping: *m, pid: -1}
			f.rows[key] = row
		}
		row.mappings++
		if row.pid != p.PID {
			row.pid = p.PID
			row.processes++
		}
	}
	return nil
}

// Close implements MapsWriter.
func (f *MapsFiles) Close() error {
	rows := make([]*fileRow, 0, len(f.rows))
	for _, row := range f.rows {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *fileRow) int {
		return cmp.Or(cmp.Compare(b.processes, a.processes), cmp.Compare(a.mapping.Name, b.mapping.Name),
			cmp.Compare(a.mapping.Inode, b.mapping.Inode), cmp.Compare(a.mapping.BuildID.Hex(), b.mapping.BuildID.Hex()))
	})
	var b []byte
	if !f.json {
		b = appendFilesHead(b)
	}
	for _, row := range rows {
		if f.json {
			b = row.appendJSON(b)
		} else {
			b = row.append(b)
		}
	}
	return flush(f.w, &b)
}

func appendFilesHead(b []byte) []byte {
	return fmt.Appendf(b, "%9s %-5s %8s %-*s %s\n", "PROCESSES", "DEV", "INODE", idWidth, "BUILD-ID", "PATH")
}

func (r *fileRow) append(b []byte) []byte {
	b = appendRight(b, strconv.Itoa(r.processes), 9)
	b = append(b, ' ')
	b = r.mapping.Dev.Append(b)
	b = append(b, ' ')
	b = appendRight(b, strconv.FormatUint(r.mapping.Inode, 10), 8)
	b = append(b, ' ')
	b = appendBuildID(b, r.mapping.BuildID)
	b = append(b, ' ')
	return append(appendName(b, &r.mapping), '\n')
}

package render

import (
	"io"
	"strconv"

	"ustack/filemap/procmap"
)

// MapsJSON writes mappings as JSON, an object a line. Numbers that may not fit
// a double (addresses, offsets) are strings; dev is as in /proc/PID/maps, in
// hexadecimal.
type MapsJSON struct {
	w   io.Writer
	buf []byte
}

// NewMapsJSON returns JSON lines on w.
func NewMapsJSON(w io.Writer) *MapsJSON { return &MapsJSON{w: w} }

// Process implements MapsWriter.
func (j *MapsJSON) Process(p *procmap.Process) error {
	for i := range p.Mappings {
		m := &p.Mappings[i]
		j.buf = appendProcess(j.buf, p.PID, p.Stat.Comm)
		j.buf = appendMapping(j.buf, m, m.Offset)
		j.buf = append(j.buf, "}\n"...)
		if len(j.buf) >= flushAt {
			if err := j.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close implements MapsWriter.
func (j *MapsJSON) Close() error { return flush(j.w, &j.buf) }

// appendProcess begins an object with the process.
func appendProcess(b []byte, pid int, comm string) []byte {
	b = strconv.AppendInt(append(b, `{"pid":`...), int64(pid), 10)
	return appendText(b, "comm", []byte(comm))
}

// appendMapping appends a mapping. offset is in its file.
func appendMapping(b []byte, m *procmap.Mapping, offset uint64) []byte {
	b = appendHex(append(b, `,"start":`...), m.Start)
	b = appendHex(append(b, `,"end":`...), m.End)
	b = m.Perms.Append(append(b, `,"perms":"`...))
	b = append(b, '"')
	b = appendHex(append(b, `,"offset":`...), offset)
	return appendMapped(b, m)
}

// appendMapped appends the file or memory of a mapping.
func appendMapped(b []byte, m *procmap.Mapping) []byte {
	b = m.Dev.Append(append(b, `,"dev":"`...))
	b = strconv.AppendUint(append(b, `","inode":`...), m.Inode, 10)
	b = m.BuildID.AppendHex(append(b, `,"build_id":"`...))
	b = append(b, '"')
	b = appendText(b, "path", []byte(m.Name))
	b = append(append(b, `,"kind":"`...), m.Kind.String()...)
	return append(b, '"')
}

func (r *fileRow) appendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"processes":`...), int64(r.processes), 10)
	b = strconv.AppendInt(append(b, `,"mappings":`...), int64(r.mappings), 10)
	b = appendMapped(b, &r.mapping)
	return append(b, "}\n"...)
}

package sideband

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// maxSavedAreas bounds the mappings of all layouts of a log, which are in memory at once.
const maxSavedAreas = 1 << 18

// Layout notes in the log what a process had of its programs and libraries, data too, when it
// was read.
func (h *History) Layout(pid int, list []procmap.Mapping, t tracefs.Time) { h.log.layout(pid, list, t) }

// Layouts returns what a log has of a process's programs and libraries, in the order of the log.
func (h *History) Layouts(pid int) []space.Reading { return h.layouts[pid] }

// HasLayouts reports whether the log has such of any process.
func (h *History) HasLayouts() bool { return len(h.layouts) > 0 }

func (l *logWriter) layout(pid int, list []procmap.Mapping, t tracefs.Time) {
	if l == nil {
		return
	}
	l.line("layout", t, pid, len(list))
	l.end()
	for i := range list {
		l.mapping(&list[i])
	}
}

// layout plays what a process had of its programs and libraries. Of more than maxSavedAreas
// mappings those of later readings are left out: their locks have no names.
func (p *Player) layout(t tracefs.Time, f *fields) error {
	pid, n := f.pid(), f.decimal(31)
	if err := f.end(); err != nil {
		return err
	}
	h := p.History
	room := n <= uint64(maxSavedAreas-h.areas)
	var list []procmap.Mapping
	err := p.mappings(n, func(m *procmap.Mapping) {
		if room {
			list = append(list, *m)
		}
	})
	if err != nil || !room {
		return err
	}
	h.areas += len(list)
	if h.layouts == nil {
		h.layouts = make(map[int][]space.Reading)
	}
	h.layouts[pid] = append(h.layouts[pid], space.Reading{At: t, Mappings: list})
	return nil
}

// mappings reads n lines of mappings.
func (p *Player) mappings(n uint64, take func(*procmap.Mapping)) error {
	for i := range n {
		line, err := p.next()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		f := fields{rest: line}
		if len(f.word()) != 0 {
			return fmt.Errorf("%d mappings instead of %d", i, n)
		}
		m := f.mapping(&p.names)
		if f.bad != nil {
			return f.bad
		}
		take(&m)
	}
	return nil
}

// readLines returns of how many mappings a line of a reading is, and whether the process
// changed meanwhile.
func readLines(word []byte) (n uint64, part, ok bool) {
	how, count, _ := bytes.Cut(word, []byte(":"))
	n, err := strconv.ParseUint(string(count), 10, 31)
	part = string(how) == "part"
	return n, part, err == nil && (part || string(how) == "all")
}

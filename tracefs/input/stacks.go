package input

import (
	"fmt"
	"io"

	"ustack/tracefs/stackmap"
	"ustack/tracefs/text"
)

// openMap opens what bpftool has written of a BPF stack map.
func (in *File) openMap(r io.Reader) error {
	if !stackmap.Supported {
		return fmt.Errorf("reading %s: it is the dump of a BPF map, whose reader this build for devices (go build -tags device) leaves out; read it on another machine", in.Name)
	}
	in.useMap(stackmap.NewDump(r))
	return nil
}

func (in *File) useMap(elements stackmap.Elements) {
	in.stacks = stackmap.NewText(elements, nil)
	in.r, in.wait = in.stacks, nil
}

// OpenMap makes a File of the elements of a BPF stack map, which it closes.
func OpenMap(name string, elements interface {
	stackmap.Elements
	io.Closer
}) *File {
	in := &File{Name: name, foreign: true, Done: func() int64 { return 0 }, close: []func() error{elements.Close}}
	in.useMap(elements)
	return in
}

// mapSource reads the text of a BPF stack map.
type mapSource struct{ *Source }

// Notes are remarks about the map, for when it is read.
func (s *mapSource) Notes() []string { return s.in.stacks.Notes() }

// HasMap reports whether an input is a BPF stack map, or a dump of one.
func (t *Trace) HasMap() bool {
	for _, f := range t.files {
		if f.stacks != nil {
			return true
		}
	}
	return false
}

// MayHaveIDs reports whether stacks of the trace may have build IDs and no paths: an input is a
// BPF map, or a text with such stacks near its beginning, or cannot be looked at yet.
func (t *Trace) MayHaveIDs() bool {
	const near = 64 << 10
	for _, f := range t.files {
		switch {
		case f.stacks != nil:
			return true
		case f.pages != nil || f.perf != nil:
			continue
		case f.plain == nil:
			return true
		}
		head := make([]byte, near)
		n, _ := f.plain.ReadAt(head, f.start) // reading the trace reports errors
		if text.HasMapStacks(head[:n]) {
			return true
		}
	}
	return false
}

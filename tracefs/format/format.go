package format

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// Event is the contents of an event's format file.
type Event struct {
	// System is the directory of the format file, "" if unknown.
	System string
	Name   string
	// ID is the number that records of the event carry (common_type).
	ID int
	// Common are the fields that every record has, Fields the event's own.
	Common, Fields []Field
	// PrintFmt is what follows "print fmt: ", as the kernel wrote it.
	PrintFmt string
	// Size is where the last field of fixed size ends: no record is shorter.
	Size int
}

const (
	// maxFile bounds a format file; the largest known have 50 KiB.
	maxFile   = 1 << 20
	maxFields = 1024
)

// Parse reads the text of a format file.
func Parse(text []byte) (*Event, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("a format file of %d bytes", len(text))
	}
	e := &Event{ID: -1}
	fields := &e.Common
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		switch {
		case bytes.HasPrefix(line, []byte("name: ")):
			e.Name = string(line[len("name: "):])
		case bytes.HasPrefix(line, []byte("ID: ")):
			id, err := strconv.ParseUint(string(line[len("ID: "):]), 10, 16)
			if err != nil {
				return nil, fmt.Errorf("line %d: the ID: %w", n, err)
			}
			e.ID = int(id)
		case bytes.HasPrefix(line, []byte("\tfield:")):
			f, err := parseField(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			if len(*fields) >= maxFields {
				return nil, fmt.Errorf("line %d: more than %d fields", n, maxFields)
			}
			*fields = append(*fields, f)
			e.Size = max(e.Size, f.Offset+f.Size)
		case len(line) == 0 && len(e.Common) > 0:
			fields = &e.Fields
		case bytes.HasPrefix(line, []byte("print fmt: ")):
			e.PrintFmt = string(bytes.TrimRight(text[len("print fmt: "):], "\n"))
			rest = nil
		}
		text = rest
	}
	if e.Name == "" || e.ID < 0 {
		return nil, errors.New("no name or no ID: this is no format file")
	}
	return e, nil
}

// Field finds a field by name, nil if there is none.
func (e *Event) Field(name string) *Field {
	for _, list := range [...][]Field{e.Fields, e.Common} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// Read reads the format files of a directory laid out as in tracefs,
// events/SYSTEM/EVENT/format, for the events that a pattern SYSTEM/EVENT of
// path.Match fits.
func Read(root fs.FS, patterns ...string) ([]*Event, error) {
	var names []string
	for _, pattern := range patterns {
		found, err := fs.Glob(root, "events/"+pattern+"/format")
		if err != nil {
			return nil, fmt.Errorf("looking for the format files of %s: %w", pattern, err)
		}
		names = append(names, found...)
	}
	events := make([]*Event, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("reading a format file: %w", err)
		}
		e, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		e.System = string(bytes.Split([]byte(name), []byte("/"))[1])
		events = append(events, e)
	}
	return events, nil
}

package format

import (
	"bytes"
	"errors"
	"fmt"
)

// Page is how the kernel lays out a sub-buffer of its ring buffer, by
// events/header_page. All numbers are bytes.
type Page struct {
	// Timestamp and Commit are where the two words before the data begin.
	Timestamp, Commit int
	// LongSize is the size of a kernel long, and of the commit word.
	LongSize int
	// Data is where the records begin.
	Data int
	// Size is the whole sub-buffer of the kernel's top level buffer; an
	// instance can have another one (FORMATS 3.1).
	Size int
}

// ParsePage reads the text of events/header_page.
func ParsePage(text []byte) (*Page, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("a header_page of %d bytes", len(text))
	}
	var stamp, commit, data *Field
	n := 0
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		f, err := parseField(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch f.Name {
		case "timestamp":
			stamp = &f
		case "commit":
			commit = &f
		case "data":
			data = &f
		}
	}
	if stamp == nil || commit == nil || data == nil {
		return nil, errors.New("timestamp, commit or data is missing: this is no header_page")
	}
	p := &Page{
		Timestamp: stamp.Offset, Commit: commit.Offset, LongSize: commit.Size,
		Data: data.Offset, Size: data.Offset + data.Size,
	}
	return p, p.check(stamp.Size)
}

func (p *Page) check(stamp int) error {
	const farthest = 64 // of the head of a sub-buffer
	switch {
	case stamp != 8:
		return fmt.Errorf("a time stamp of %d bytes", stamp)
	case p.LongSize != 4 && p.LongSize != 8:
		return fmt.Errorf("a commit word of %d bytes", p.LongSize)
	case p.Data > farthest, p.Timestamp+8 > p.Data, p.Commit+p.LongSize > p.Data, p.Size <= p.Data:
		return errors.New("its words do not fit before the data")
	}
	return nil
}

// DefaultPage returns the layout of 64-bit kernels with pages of 4 KiB.
func DefaultPage() *Page {
	return &Page{Timestamp: 0, Commit: 8, LongSize: 8, Data: 16, Size: 4096}
}

// entry is what a kernel's header_event says when the records' headers are as
// package ring knows them; all kernels since 2.6.32 agree.
var entry = [...]string{
	"type_len    :    5 bits",
	"time_delta  :   27 bits",
	"array       :   32 bits",
	"padding     : type == 29",
	"time_extend : type == 30",
	"data max type_len  == 28",
}

// CheckEntry reads events/header_event and returns an error if records have
// another header than all known kernels give them.
func CheckEntry(text []byte) error {
	for _, want := range entry {
		if !bytes.Contains(text, []byte(want)) {
			return fmt.Errorf("header_event does not say %q", want)
		}
	}
	return nil
}

package profile

import (
	"errors"
	"io"

	"ustack/render"
	"ustack/tracefs/nearest"
)

// Format is a way to write a profile.
type Format struct {
	// Name is the value of --format.
	Name string
	// Binary is set if a terminal cannot show it.
	Binary bool
	// Timed is set if it shows each stack and each wait at its time, and so is
	// not of a Profile: package perfetto writes it.
	Timed bool
	// Page is set if it shows more of waits than their profile: package report
	// of futex writes it then.
	Page bool
	// Write writes a profile. Frames are a file and an offset if they have no names.
	// It is nil if Timed.
	Write func(w io.Writer, p *Profile) error
}

// someFolded is Folded. The error is render.ErrEmpty if there is no line: an empty file would
// pass for a result.
func someFolded(w io.Writer, p *Profile) error {
	to := counting{to: w}
	err := Folded(&to, p)
	if err == nil && to.n == 0 {
		return render.ErrEmpty
	}
	return err
}

// counting counts the bytes that are written.
type counting struct {
	to io.Writer
	n  int
}

// Write implements io.Writer.
func (c *counting) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += n
	return n, err
}

// ParseFormat finds a format by its name. others are names of formats that are not
// profiles, for the error.
func ParseFormat(name string, others ...string) (Format, error) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
		others = append(others, f.Name)
	}
	if err := leftOut(name); err != nil {
		return Format{}, err
	}
	return Format{}, errors.New(nearest.Unknown("format", name, others))
}

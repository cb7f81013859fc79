package profile

import (
	"fmt"
	"io"
	"strings"
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

// Formats returns all of them. A new one is a row here, and a file.
func Formats() []Format {
	return []Format{
		{Name: "folded", Write: Folded},
		{Name: "pprof", Binary: true, Write: Pprof},
		{Name: "speedscope", Write: Speedscope},
		{Name: "html", Page: true, Write: HTML},
		{Name: "perfetto", Binary: true, Timed: true},
	}
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
	return Format{}, fmt.Errorf("unknown format %q (one of %s)", name, strings.Join(others, ", "))
}

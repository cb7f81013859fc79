package health

import (
	"fmt"
	"strings"

	"ustack/filemap/unwind/health"
)

// details prints what -v adds to the line of a file.
func (t *text) details(s *health.Target) {
	r := s.Report
	detail := func(format string, args ...any) {
		t.buf.WriteString("        ")
		fmt.Fprintf(&t.buf, format, args...)
		t.buf.WriteByte('\n')
	}
	detail("%s: %d bytes of code, build ID %s", machine(r), r.Code, orNone(r.BuildID.Hex()))
	if r.Looked > 0 {
		detail("frame pointers: %d of %d functions that call others keep them", r.Keeping, r.Looked)
	}
	for _, table := range tablesOf(r) {
		detail("%s", tableDetail(table))
	}
	for _, damage := range r.Damaged {
		detail("damaged: %s", clean(damage))
	}
	if r.Missing > 0 {
		detail("without a table: %d bytes, the largest piece %#x to %#x%s", r.Missing, r.Gap.Start, r.Gap.End, in(r.Gap.Section))
	}
	if r.Plain {
		detail("code without a table is unwound by frame pointers")
	}
	if r.Followed > 0 {
		detail("code without a table is followed: callers of %.1f %% of its calls are found (by a sample)", floor(r.Followed))
	}
	if r.Known() && r.Code > 0 {
		detail("callers found: those of %.1f %% of the calls (estimated)", floor(r.Reach))
	}
	if r.NoSections {
		detail("no section headers: names, lines and .gnu_debuglink are not found")
	} else {
		detail("names: %s, lines: %s, .gnu_debuglink: %s", orNone(r.Names.String()), has(r.DebugInfo), orNone(clean(r.DebugLink)))
	}
	if s.Debug != "" {
		detail("debug file: %s: names: %s, lines: %s%s", clean(s.Debug), orNone(r.Separate.Names.String()), has(r.Separate.DebugInfo), separateFrames(r))
		return
	}
	for _, try := range s.Tries {
		detail("debug file: %s: %s", clean(try.Path), clean(try.Result))
	}
}

func machine(r *health.Report) string {
	name := strings.TrimPrefix(r.Machine.String(), "EM_")
	if !r.Wide {
		name += " of 32 bits"
	}
	if r.Static {
		name += ", static"
	}
	if r.Go {
		name += ", Go"
	}
	return name
}

func tableDetail(t named) string {
	text := fmt.Sprintf("%s: %d functions, %.1f %% of the code", t.name, t.Functions, floor(t.Covered))
	if t.Version > 0 {
		text += fmt.Sprintf(", version %d", t.Version)
	}
	if !t.Indexed {
		text += ", without an index"
	}
	return text
}

// floor returns a share as percents with one digit, never more than there is.
func floor(share float64) float64 { return float64(int(1000*share)) / 10 }

func separateFrames(r *health.Report) string {
	if t := &r.Separate.DebugFrame; t.Present {
		return fmt.Sprintf(", .debug_frame: %d functions, %.1f %% of the code", t.Functions, floor(t.Covered))
	}
	return ""
}

func in(section string) string {
	if section == "" {
		return ""
	}
	return " in " + clean(section)
}

func has(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

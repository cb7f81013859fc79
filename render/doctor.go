package render

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"ustack/filemap/doctor"
	"ustack/render/plainjson"
)

// doctorSchema is the form of WriteDoctorJSON. It changes when the meaning of a
// key does, not when a key is added.
const doctorSchema = "ustack.doctor/1"

// doctorWidth is how wide lines are, in characters. Commands and names are
// never cut.
const doctorWidth = 100

// WriteDoctor prints a report for people: the verdict, then the checks, a line
// each and more where something lacks.
func WriteDoctor(w io.Writer, r *doctor.Report) error {
	p := doctorText{names: 1}
	for i := range r.Checks {
		p.names = max(p.names, utf8.RuneCountInString(r.Checks[i].Name))
	}
	p.wrap("", "  ", r.Verdict)
	if r.Kernel != "" {
		p.wrap("", "  ", "Linux "+r.Kernel)
	}
	group := ""
	var count [doctor.Missing + 1]int
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(&p, "\n%s\n", group)
		}
		p.check(c)
		count[c.State]++
	}
	fmt.Fprintf(&p, "\n%d checks: %d ok, %d limited, %d missing\n", len(r.Checks), count[doctor.OK], count[doctor.Limited], count[doctor.Missing])
	if _, err := w.Write(p.Bytes()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// doctorText is the text of a report.
type doctorText struct {
	bytes.Buffer
	names int    // how wide the column of names is
	fix   string // the last one that was printed
}

func (p *doctorText) check(c *doctor.Check) {
	head := fmt.Sprintf("  %-8s %-*s  ", c.State, p.names, c.Name)
	indent := strings.Repeat(" ", utf8.RuneCountInString(head))
	p.wrap(head, indent, c.Found)
	const detail = "           "
	switch {
	case c.Without != "":
		p.wrap(detail+"as it is: ", detail+"          ", c.Without)
	case c.Required && c.State == doctor.Missing:
		p.wrap(detail+"as it is: ", "", "live does not work")
	}
	switch c.Fix {
	case "":
	case p.fix:
		fmt.Fprintf(p, "%sas root:  as above\n", detail)
	default:
		p.fix = c.Fix
		fmt.Fprintf(p, "%sas root:  %s\n", detail, escaped(c.Fix))
	}
}

// wrap prints a text after head, and goes on after indent where a line ends. All
// white space in the text becomes a blank or a new line.
func (p *doctorText) wrap(head, indent, text string) {
	column := utf8.RuneCountInString(head)
	p.WriteString(head)
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > doctorWidth:
			p.WriteString("\n" + indent)
			column = utf8.RuneCountInString(indent)
		default:
			p.WriteByte(' ')
			column++
		}
		p.Write(escaped(word))
		column += n
	}
	p.WriteByte('\n')
}

// WriteDoctorJSON prints a report as a JSON object.
func WriteDoctorJSON(w io.Writer, r *doctor.Report) error {
	type check struct {
		Group    string `json:"group"`
		Name     string `json:"name"`
		State    string `json:"state"`
		Required bool   `json:"required"`
		Found    string `json:"found"`
		Without  string `json:"without,omitempty"`
		Fix      string `json:"fix,omitempty"`
	}
	object := struct {
		Schema   string  `json:"schema"`
		Works    bool    `json:"works"`
		Verdict  string  `json:"verdict"`
		Kernel   string  `json:"kernel,omitempty"`
		Stacks   string  `json:"stacks,omitempty"`
		Mappings string  `json:"mappings,omitempty"`
		Clock    string  `json:"clock,omitempty"`
		Checks   []check `json:"checks"`
	}{doctorSchema, r.Works, r.Verdict, r.Kernel, r.Stacks, r.Mappings, r.Clock, []check{}}
	for _, c := range r.Checks {
		object.Checks = append(object.Checks, check{c.Group, c.Name, c.State.String(), c.Required, c.Found, c.Without, c.Fix})
	}
	var text bytes.Buffer
	e := plainjson.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(object); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

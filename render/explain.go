package render

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
)

// Explanation says where the identity and the name of one frame came from.
// The resolver must get every stack by itself (input.Options.NoTemplates).
type Explanation struct {
	w         io.Writer
	line      int64
	why       *resolve.Why
	announced []announced
	found     bool
	place     symbol.Place // of the frame
	inferred  bool
	body      bytes.Buffer
	id        tracefs.Identifier
}

// announced is a place where the kernel announced an identifier.
type announced struct {
	line int64
	id   tracefs.Identifier
	path string
}

// maxAnnounced bounds the mapping events that are kept.
const maxAnnounced = 1 << 16

// NewExplanation returns a renderer that writes to w about the frame in the line of
// the input that why is about.
func NewExplanation(w io.Writer, why *resolve.Why) *Explanation {
	return &Explanation{w: w, line: why.Line, why: why}
}

// Batch implements Renderer.
func (e *Explanation) Batch(h *resolve.Pending) error {
	for i := range h.Records {
		rec := &h.Records[i]
		switch rec.Kind {
		case tracefs.KindMappingEvent:
			if a := h.MappingEvent(rec); a.Bad == "" && len(e.announced) < maxAnnounced {
				e.announced = append(e.announced, announced{lineAt(h, rec.Off), a.ID, string(a.Path)})
			}
		case tracefs.KindStack:
			if from := lineAt(h, rec.Off); e.found || e.line < from || e.line > from+int64(bytes.Count(h.Raw(rec), []byte("\n"))) {
				continue
			}
			e.stack(h, i)
		}
	}
	return nil
}

// lineAt returns the line of the input at a place of a batch.
func lineAt(h *resolve.Pending, off uint32) int64 {
	return h.Line + int64(bytes.Count(h.Text[:off], []byte("\n"))) + 1
}

// stack looks for the frame in a stack.
func (e *Explanation) stack(h *resolve.Pending, i int) {
	rec := &h.Records[i]
	frames, txt := h.StackFrames(rec)
	attributions, _ := h.StackAttributions(i)
	for k := range frames {
		f := &frames[k]
		if f.Off == f.End || lineAt(h, f.Off) != e.line {
			continue
		}
		e.found, e.id = true, f.ID
		head := h.Head(rec)
		line := txt[f.Off:f.End]
		if !h.Escaped {
			line = escape.Append(nil, line)
		}
		of := "in a BPF map"
		if h.Headed(rec) {
			of = fmt.Sprintf("of %s-%d on CPU %d at %s", escape.Append(nil, head.Comm), rec.TID, rec.CPU, head.Stamp)
		}
		fmt.Fprintf(&e.body, "%s\n\nframe %d of %d, innermost first, of a stack %s\n", line, k+1, len(frames), of)
		e.identity(txt, f, &attributions[k])
		e.proof()
		if o := &attributions[k]; o.File != nil {
			innermost := k == 0 && rec.Flags&tracefs.Continued == 0
			e.place = symbol.Place{File: o.File, Offset: o.At(txt, f), Ran: innermost || f.Interrupted() || f.Inferred()}
			e.inferred = f.Inferred()
		} else if n := symbol.OfMemory(o.Memory, o.Reason, o.At(txt, f)); n != nil {
			e.function(n)
			e.advise(noNameAdvice[n.Reason])
		}
	}
}

// identity prints the file that the frame is in.
func (e *Explanation) identity(txt []byte, f *tracefs.Frame, o *resolve.Attribution) {
	if o.File == nil {
		fmt.Fprintf(&e.body, "\nno file: %s: %s\n", o.Reason, reasonText[o.Reason])
		if o.Memory != nil && o.Reason == filemap.VMAOffset {
			fmt.Fprintf(&e.body, "  mapping: %s\n", text.AppendObject(nil, escaped(o.Memory.Name), o.Offset))
		} else if o.Memory != nil {
			fmt.Fprintf(&e.body, "  memory: %s\n", escaped(o.Memory.Name))
		}
		e.advise(reasonAdvice[o.Reason])
		return
	}
	id := o.File.BuildID.Hex()
	if id == "" {
		id = "none"
		if !o.File.HasID {
			id = "not in the trace"
		}
	}
	why := trustText[o.Trust]
	if f.Inferred() {
		why = inferredText
	}
	fmt.Fprintf(&e.body, "\nfile: %s\n  build ID: %s\n  offset: %#x\n  trust: %s: %s\n",
		escaped(o.File.Path), id, o.At(txt, f), o.Trust, why)
	e.advise(trustAdvice[o.Trust])
}

// proof writes the steps by which the file was found, or the contradiction.
func (e *Explanation) proof() {
	if len(e.why.Steps) == 0 {
		return
	}
	e.body.WriteString("  proof:\n")
	for i := range e.why.Steps {
		fmt.Fprintf(&e.body, "    %s\n", stepText(&e.why.Steps[i]))
	}
}

// function prints a frame's function, or why it has none.
func (e *Explanation) function(n *symbol.Name) {
	if n.Reason == symbol.NoReason {
		fmt.Fprintf(&e.body, "\nfunction:%s\n  from: %s\n", nameText(nil, n), sourceText[n.Source])
	} else {
		fmt.Fprintf(&e.body, "\nno function: %s: %s\n", n.Reason, noNameText[n.Reason])
	}
}

// Place returns where the frame is, once it has been found; false if it is in no file.
func (e *Explanation) Place() (symbol.Place, bool) { return e.place, e.place.File != nil }

// Name takes the name of the Place, and the places where its file was looked for.
func (e *Explanation) Name(n *symbol.Name, tries []symbol.Try) {
	f := e.place.File
	if e.inferred {
		n = &symbol.Name{Function: n.Function, Source: n.Source, Reason: n.Reason, Found: n.Found, Inferred: true}
	}
	e.function(n)
	if n.Reason == symbol.IDMismatch {
		fmt.Fprintf(&e.body, "  wanted: %s\n  found:  %s\n", f.BuildID.Hex(), orNone(n.Found.Hex()))
	}
	e.body.WriteString("  looked at:\n")
	for _, try := range tries {
		fmt.Fprintf(&e.body, "    %s: %s\n", escaped(try.Path), escaped(try.Result))
	}
	advice := noNameAdvice[n.Reason]
	if strings.Contains(advice, "BUILD-ID") {
		advice = strings.ReplaceAll(advice, "BUILD-ID", symbol.ShortHex(f.BuildID))
		if f.BuildID.IsZero() {
			advice = noNameAdvice[symbol.Unverified]
		}
	}
	e.advise(advice)
}

// escaped returns an untrusted string as it stands in a line.
func escaped(s string) []byte { return escape.Append(nil, []byte(s)) }

func (e *Explanation) advise(text string) {
	if text != "" {
		fmt.Fprintf(&e.body, "  better: %s\n", text)
	}
}

// Flush implements Renderer.
func (e *Explanation) Flush() error { return nil }

// Found reports whether the line was a frame.
func (e *Explanation) Found() bool { return e.found }

// Close writes the explanation, with the places where the kernel announced the
// frame's identifier.
func (e *Explanation) Close(*resolve.Totals) error {
	if !e.found {
		return nil
	}
	if !e.id.IsZero() && !e.id.NoFile() && !e.id.NoVMA() {
		fmt.Fprintf(&e.body, "\nidentifier: %s\n", e.id.Append(nil))
		for _, a := range e.announced {
			if a.id == e.id {
				fmt.Fprintf(&e.body, "  line %d reports it as %s\n", a.line, escaped(a.path))
			}
		}
	}
	_, err := e.w.Write(e.body.Bytes())
	return err
}

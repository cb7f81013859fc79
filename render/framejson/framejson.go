// Package framejson has the form of stacks in the JSON documents of reports.
package framejson

import (
	"fmt"
	"strings"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/stackset"
	"ustack/tracefs"
)

// Frame is a frame as replay's JSON has it.
type Frame struct {
	Offset  string `json:"offset,omitempty"`
	Path    string `json:"path,omitempty"`
	BuildID string `json:"build_id,omitempty"`
	Trust   string `json:"trust,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Address string `json:"address,omitempty"`
	// Inferred marks a function that the kernel gave no frame of.
	Inferred bool `json:"inferred,omitempty"`
	// How it was found, if ustack has unwound the stack.
	How string `json:"how,omitempty"`
	// As in the lines of replay: the offset in a mapping, and its name.
	VMAOffset string `json:"vma_offset,omitempty"`
	Text      string `json:"text,omitempty"`

	// With symbols, as in the lines of replay.
	Function       string `json:"function,omitempty"`
	FunctionOffset string `json:"function_offset,omitempty"`
	File           string `json:"file,omitempty"`
	Line           int    `json:"line,omitempty"`
	Inlined        []Call `json:"inlined,omitempty"`
	Source         string `json:"symbol_source,omitempty"`
	NoSymbol       string `json:"no_function,omitempty"`
}

// Call is a call that is inlined.
type Call struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
}

// Hex writes a number as JSON has addresses.
func Hex(v uint64) string { return fmt.Sprintf("%#x", v) }

// Clean makes valid UTF-8 of the kernel's bytes; control characters are
// escaped by the encoder.
func Clean(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// Frames returns the frames of a stack, innermost first, nil for no stack.
func Frames(s *stackset.Stack) []Frame {
	if s == nil {
		return nil
	}
	out := make([]Frame, 0, len(s.Frames))
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File == nil {
			without := Frame{Reason: f.Reason.String(), Address: Hex(f.Address)}
			if f.Mapping != nil {
				without.VMAOffset = Hex(f.Offset)
				without.Text = Clean(f.Mapping.Name) + "[+" + Hex(f.Offset) + "]"
			}
			without.named(f.Name)
			without.found(f.How)
			out = append(out, without)
			continue
		}
		out = append(out, frameOf(f.File, f.Offset, f.Trust, f.Name, f.Inferred))
		out[len(out)-1].found(f.How)
		if s := f.Skipped; s != nil {
			out = append(out, frameOf(s.File, s.Offset, f.Trust.Skipped(), s.Name, true))
		}
	}
	return out
}

// One returns a frame that has a file or a function.
func One(f *stackset.Frame) *Frame {
	return &Frames(&stackset.Stack{Frames: []stackset.Frame{*f}})[0]
}

// found says how a frame was found, if ustack did.
func (f *Frame) found(how tracefs.How) {
	if how != tracefs.ByKernel {
		f.How = how.String()
	}
}

// frameOf returns a frame with a file.
func frameOf(f *filemap.File, offset uint64, trust filemap.Trust, n *symbol.Name, inferred bool) Frame {
	out := Frame{Offset: Hex(offset), Path: Clean(f.Path), BuildID: f.BuildID.Hex(), Trust: trust.String(), Inferred: inferred}
	out.named(n)
	return out
}

// named puts a function into a frame.
func (f *Frame) named(n *symbol.Name) {
	switch {
	case n == nil:
		return
	case n.Reason != symbol.NoReason:
		f.NoSymbol = n.Reason.String()
		return
	}
	f.Function, f.Source = Clean(n.Function), n.Source.String()
	if f.Inferred {
		return
	}
	f.FunctionOffset = Hex(n.Offset)
	f.File, f.Line = Clean(n.File), n.Line
	for _, in := range n.Inlined {
		f.Inlined = append(f.Inlined, Call{Clean(in.Function), Clean(in.File), in.Line})
	}
}

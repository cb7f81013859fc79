package profile

import (
	"cmp"
	"path"
	"strconv"
	"unicode/utf8"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render"
	"ustack/tracefs/text"
)

// line is a function of a frame: several if some are inlined.
type line struct {
	name string
	file string // in the source, "" if unknown
	line int
}

// Words in the place of frames.
const (
	truncated = "[truncated]" // outermost: more frames are missing
	noFrames  = "[no frames]"
	others    = "[other stacks: too many to keep apart]"
)

// names says how frames are called.
type names struct {
	symbols render.Symbols // nil for none
	files   map[*filemap.File]string
	lines   []line
}

func newNames(p *Profile, symbols render.Symbols) *names {
	return &names{symbols: symbols, files: fileNames(p)}
}

// sameFile is what makes two files one, in different tables too.
type sameFile struct {
	path string
	id   filemap.BuildID
}

// fileNames gives the files of a profile names as short as they can be: the
// last element of the path, all of it if that is another file's, too, and with
// the build ID if even that is not enough.
func fileNames(p *Profile) map[*filemap.File]string {
	all := make(map[*filemap.File]string)
	bases, paths := make(map[string]map[sameFile]bool), make(map[string]map[sameFile]bool)
	note := func(m map[string]map[sameFile]bool, name string, f *filemap.File) {
		if m[name] == nil {
			m[name] = make(map[sameFile]bool)
		}
		m[name][sameFile{f.Path, f.BuildID}] = true
	}
	for i := range p.stacks {
		for _, f := range p.stacks[i].frames {
			if _, ok := all[f.File]; f.File != nil && !ok {
				all[f.File] = ""
				note(bases, path.Base(f.File.Path), f.File)
				note(paths, f.File.Path, f.File)
			}
		}
	}
	for f := range all {
		base := path.Base(f.Path)
		switch {
		case len(bases[base]) == 1:
			all[f] = base
		case len(paths[f.Path]) == 1:
			all[f] = f.Path
		default:
			all[f] = f.Path + "[" + cmp.Or(f.BuildID.Hex(), "no build ID") + "]"
		}
	}
	return all
}

// of returns the functions of a frame, innermost first; one if it has no names.
// ran means that the thread was there, and will not return there. The list is
// valid until the next call.
func (n *names) of(f *Frame, ran bool) []line {
	n.lines = n.lines[:0]
	if f.File == nil {
		return append(n.lines, line{name: nowhere(f)})
	}
	if s := n.symbol(f, ran); s != nil {
		n.lines = appendLines(n.lines, s, f.Inferred)
		return n.lines
	}
	name := n.files[f.File] + "+0x" + strconv.FormatUint(f.Offset, 16)
	if f.Inferred {
		name += text.InferredMark
	}
	return append(n.lines, line{name: name})
}

// between returns the function that was left out between the frame k of a stack
// and the next outer one, nil if none is known.
func (n *names) between(st *stack, k int) *symbol.Skipped {
	if n.symbols == nil || k+1 >= len(st.frames) {
		return nil
	}
	inner, outer := &st.frames[k], &st.frames[k+1]
	if inner.File == nil || outer.File == nil || inner.Inferred || outer.Inferred || outer.Followed {
		return nil
	}
	return n.symbols.Skipped(symbol.Place{File: inner.File, Offset: inner.Offset, Ran: k == 0 || inner.Interrupted}, symbol.Place{File: outer.File, Offset: outer.Offset, Calls: outer.Calls})
}

// symbol returns a frame's name, nil if it has none.
func (n *names) symbol(f *Frame, ran bool) *symbol.Name {
	if n.symbols == nil || f.File == nil {
		return nil
	}
	if s := n.symbols.Name(f.File, f.Offset, ran || f.Inferred || f.Interrupted); s.Reason == symbol.NoReason {
		return s
	}
	return nil
}

// appendLines lists the functions of a name. In an inferred one only the
// function is known, not where in it the thread was.
func appendLines(list []line, s *symbol.Name, inferred bool) []line {
	if inferred {
		return append(list, line{name: s.Function + text.InferredMark})
	}
	for i := range s.Inlined {
		in := &s.Inlined[i]
		name := in.Function
		if name == "" {
			name = "??"
		}
		list = append(list, line{name, in.File, in.Line})
	}
	return append(list, line{s.Function, s.File, s.Line})
}

// nowhere returns how a frame without a file is called.
func nowhere(f *Frame) string {
	if f.Memory != "" {
		return f.Memory
	}
	return "[" + f.Reason.String() + "]"
}

// valid is text that any reader takes: U+FFFD stands for each byte that is no
// UTF-8.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

package profile

import (
	"cmp"
	"path"
	"strconv"
	"unicode/utf8"

	"ustack/filemap"
	"ustack/filemap/symbol"
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

// Name names the functions of all stacks, before the profile is written.
func (p *Profile) Name(names symbol.Namer) {
	for i := range p.stacks {
		st := &p.stacks[i]
		st.functions = make([]symbol.Function, len(st.frames))
		for k := range st.frames {
			f, fn := &st.frames[k], &st.functions[k]
			if f.File == nil {
				continue
			}
			ran := k == 0 || f.Interrupted
			fn.Name = names.Name(f.File, f.Offset, ran || f.Inferred)
			if k+1 == len(st.frames) {
				continue
			}
			if outer := &st.frames[k+1]; outer.File != nil && !f.Inferred && !outer.Inferred && !outer.Followed {
				fn.Skipped = names.Skipped(symbol.Place{File: f.File, Offset: f.Offset, Ran: ran}, symbol.Place{File: outer.File, Offset: outer.Offset, Calls: outer.Calls})
			}
		}
	}
}

// names says how frames are called.
type names struct {
	files map[*filemap.File]string
	lines []line
}

func newNames(p *Profile) *names { return &names{files: fileNames(p)} }

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
// fn is nil without names. The list is valid until the next call.
func (n *names) of(f *Frame, fn *symbol.Function) []line {
	n.lines = n.lines[:0]
	if f.File == nil {
		return append(n.lines, line{name: nowhere(f)})
	}
	if s := named(f, fn); s != nil {
		n.lines = appendLines(n.lines, s, f.Inferred)
		return n.lines
	}
	name := n.files[f.File] + "+0x" + strconv.FormatUint(f.Offset, 16)
	if f.Inferred {
		name += text.InferredMark
	}
	return append(n.lines, line{name: name})
}

// named returns a frame's name, nil if it has none.
func named(f *Frame, fn *symbol.Function) *symbol.Name {
	if fn == nil || f.File == nil || fn.Name == nil || fn.Name.Reason != symbol.NoReason {
		return nil
	}
	return fn.Name
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

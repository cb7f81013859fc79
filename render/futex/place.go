package futex

import (
	"bytes"
	"strconv"

	"ustack/filemap"
	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
)

// Place is where a futex is, and whose: a report has it in a line before the first call there
// that a thread makes, as processes cannot be asked later.
type Place struct {
	TID int32
	// TGID is the process of the thread, 0 if that is unknown from now on: then there is no more.
	TGID int32
	// Began is when its program began to run, or was first seen; Exact: it did not run before.
	Began tracefs.Time
	Exact bool
	// Program is the name of its program, "" if unknown.
	Program string
	// Addr is the futex, 0 for the process of the thread alone, and Layout what is mapped around
	// it (Layouts), nil if it is not in the data of a program or library, or that is unknown.
	Addr   uint64
	Trust  filemap.Trust
	Layout filemap.Layout
}

// MaxAreas is how many areas a Layout has at most that is written. Files have about five.
const MaxAreas = 64

// maxNames bounds the characters of names and paths in a line, escaped.
const maxNames = 4 * 4096

// AppendPlace appends the line of a place, with its line feed.
func AppendPlace(b []byte, p *Place) []byte {
	return append(appendPlace(append(b, text.PlaceMark...), p), '\n')
}

func appendPlace(b []byte, p *Place) []byte {
	number := func(name string, v int64) { b = strconv.AppendInt(append(b, name...), v, 10) }
	number("thread=", int64(p.TID))
	number(" process=", int64(p.TGID))
	if p.TGID == 0 {
		return b
	}
	if p.Exact {
		number(" began=", int64(p.Began))
	} else {
		number(" seen=", int64(p.Began))
	}
	b = appendWord(append(b, " program="...), p.Program)
	if p.Addr == 0 {
		return b
	}
	b = strconv.AppendUint(append(b, " futex=0x"...), p.Addr, 16)
	f := p.file()
	if f == nil || len(p.Layout) > MaxAreas {
		return b
	}
	b = append(append(append(b, " trust="...), p.Trust.String()...), " areas="...)
	for i := range p.Layout {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendArea(b, &p.Layout[i])
	}
	if f.HasID {
		b = append(append(b, " build_id="...), f.BuildID.Words()...)
	}
	return appendWord(append(b, " path="...), f.Path)
}

// file returns the program or library of the layout, nil if there is none.
func (p *Place) file() *filemap.File {
	for i := range p.Layout {
		if f := p.Layout[i].File; f != nil {
			return f
		}
	}
	return nil
}

// The kinds of areas, by their letters: code and other memory of the file, private memory
// without a file, and the rest.
const (
	areaCode, areaFile, areaAnonymous, areaOther = 'c', 'f', 'a', 'o'
)

func appendArea(b []byte, a *filemap.Area) []byte {
	b = append(strconv.AppendUint(b, a.Start, 16), '-')
	b = append(strconv.AppendUint(b, a.End, 16), '+')
	b = strconv.AppendUint(b, a.Offset, 16)
	switch {
	case a.File != nil && a.Code:
		return append(b, areaCode)
	case a.File != nil:
		return append(b, areaFile)
	case a.Anonymous:
		return append(b, areaAnonymous)
	}
	return append(b, areaOther)
}

// appendWord appends a name without blanks.
func appendWord(b []byte, name string) []byte {
	for i, part := range bytes.Split([]byte(name), []byte{' '}) {
		if i > 0 {
			b = escape.AppendByte(b, ' ')
		}
		b = escape.Append(b, part)
	}
	return b
}

// parsePlace reads the line of a place after its mark, without the line feed. It takes what
// AppendPlace writes, and nothing else. The file of a layout is one of files.
func parsePlace(line []byte, files *filemap.Files) (p Place, ok bool) {
	words := placeWords{line: line, ok: true}
	p.TID = int32(words.number("thread=", 10, 32))
	p.TGID = int32(words.number(" process=", 10, 32))
	if p.TGID != 0 {
		if p.Exact = words.has(" began="); p.Exact {
			p.Began = tracefs.Time(words.number(" began=", 10, 64))
		} else {
			p.Began = tracefs.Time(words.number(" seen=", 10, 64))
		}
		p.Program = words.name(" program=")
	}
	if words.has(" futex=") {
		p.Addr = words.number(" futex=0x", 16, 64)
	}
	if words.has(" trust=") {
		words.layout(&p, files)
	}
	ok = words.ok && p.TID > 0 && p.TID <= tracefs.MaxTID && p.TGID <= tracefs.MaxTID && len(line) <= maxNames+MaxAreas*64
	return p, ok && bytes.Equal(appendPlace(nil, &p), line)
}

// placeWords are the words of a line that are still to be read.
type placeWords struct {
	line []byte
	ok   bool // all were as they should be
}

func (w *placeWords) has(key string) bool { return bytes.HasPrefix(w.line, []byte(key)) }

// word takes the value of a key that comes next.
func (w *placeWords) word(key string) []byte {
	rest, ok := bytes.CutPrefix(w.line, []byte(key))
	end := bytes.IndexByte(rest, ' ')
	if end < 0 {
		end = len(rest)
	}
	w.ok, w.line = w.ok && ok, rest[end:]
	return rest[:end]
}

func (w *placeWords) number(key string, base, bits int) uint64 {
	v, err := strconv.ParseUint(string(w.word(key)), base, bits)
	w.ok = w.ok && err == nil && (bits < 64 || base != 10 || v < 1<<63)
	return v
}

func (w *placeWords) name(key string) string { return string(escape.Undo(w.word(key))) }

// layout reads what is mapped around the futex.
func (w *placeWords) layout(p *Place, files *filemap.Files) {
	p.Trust = trustOf(w.word(" trust="))
	areas := w.word(" areas=")
	var id []byte
	if w.has(" build_id=") {
		id = w.word(" build_id=")
	}
	path := w.name(" path=")
	w.ok = w.ok && p.Trust != filemap.NoTrust && path != "" && len(path) <= maxNames
	if w.ok {
		p.Layout = parseAreas(areas, files.Intern([]byte(path), id))
		w.ok = p.Layout.At(p.Addr) != nil && p.file() != nil
	}
}

// trustOf returns what a word means, NoTrust if a Layouts never says that.
func trustOf(word []byte) filemap.Trust {
	for _, t := range [...]filemap.Trust{filemap.Verified, filemap.Late} {
		if t.String() == string(word) {
			return t
		}
	}
	return filemap.NoTrust
}

// parseAreas reads a layout of a file; nil if it is none: areas in order, not over each other.
func parseAreas(list []byte, f *filemap.File) (l filemap.Layout) {
	end := uint64(0)
	for word := range bytes.SplitSeq(list, []byte{','}) {
		a, ok := parseArea(word, f)
		if !ok || a.Start < end || a.End <= a.Start || len(l) >= MaxAreas {
			return nil
		}
		l, end = append(l, a), a.End
	}
	return l
}

func parseArea(word []byte, f *filemap.File) (a filemap.Area, ok bool) {
	if len(word) == 0 {
		return a, false
	}
	kind := word[len(word)-1]
	start, rest, _ := bytes.Cut(word[:len(word)-1], []byte{'-'})
	end, offset, _ := bytes.Cut(rest, []byte{'+'})
	ok = true
	for i, part := range [...][]byte{start, end, offset} {
		v, err := strconv.ParseUint(string(part), 16, 64)
		ok = ok && err == nil
		*[...]*uint64{&a.Start, &a.End, &a.Offset}[i] = v
	}
	switch kind {
	case areaCode, areaFile:
		a.File, a.Code = f, kind == areaCode
	case areaAnonymous:
		a.Anonymous = true
	case areaOther:
	default:
		return a, false
	}
	return a, ok
}

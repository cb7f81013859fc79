package format

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Loc is where a field's data is.
type Loc uint8

const (
	// Inline data lies at the field's offset.
	Inline Loc = iota
	// DataLoc data lies elsewhere in the record: the field is a u32, whose
	// low 16 bits are the offset from the record's start and whose high 16
	// bits the length in bytes (__data_loc).
	DataLoc
	// RelLoc is DataLoc with the offset counted from the end of the u32
	// (__rel_loc).
	RelLoc
)

// Field is one field of a record.
type Field struct {
	// Type is the C type as the kernel wrote it, without __data_loc or
	// __rel_loc and without the brackets of an array: "unsigned long".
	Type string
	Name string
	// Offset and Size are in bytes, from the record's start. The Size of a
	// flexible array is 0.
	Offset, Size int
	// Len is the number of elements of an array, 0 if it is flexible.
	Len    int
	Array  bool
	Signed bool
	Loc    Loc
}

// maxSize bounds offsets and sizes: a record must fit a sub-buffer, and
// __data_loc can reach no further than 64 KiB.
const maxSize = 1 << 16

// ElemSize returns the size of one element of an array of fixed length, else
// the size of the field; 0 if unknown.
func (f *Field) ElemSize() int {
	if !f.Array || f.Loc != Inline {
		return f.Size
	}
	if f.Len > 0 {
		return f.Size / f.Len
	}
	return 0
}

// parseField reads "field:TYPE NAME;\toffset:N;\tsize:N;\tsigned:N;".
func parseField(line []byte) (Field, error) {
	var f Field
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("field:"))
	if !ok {
		return f, fmt.Errorf("%.40q is no field", line)
	}
	decl, rest, ok := bytes.Cut(rest, []byte(";"))
	if !ok {
		return f, fmt.Errorf("field %.40q has no end", line)
	}
	if err := f.declare(strings.TrimSpace(string(decl))); err != nil {
		return f, err
	}
	signed := 0
	for _, p := range [...]struct {
		key      string
		to       *int
		required bool
	}{{"offset:", &f.Offset, true}, {"size:", &f.Size, true}, {"signed:", &signed, false}} {
		part, after, ok := bytes.Cut(bytes.TrimLeft(rest, "\t "), []byte(";"))
		value, found := bytes.CutPrefix(part, []byte(p.key))
		if !ok || !found {
			if p.required {
				return f, fmt.Errorf("field %.40q has no %s", f.Name, p.key)
			}
			continue
		}
		n, err := strconv.Atoi(string(value))
		if err != nil || n < 0 || n > maxSize {
			return f, fmt.Errorf("field %.40q: %s%.20q is out of range", f.Name, p.key, value)
		}
		*p.to, rest = n, after
	}
	f.Signed = signed != 0
	if f.Loc != Inline && f.Size != 4 {
		return f, fmt.Errorf("field %.40q: a __data_loc of %d bytes", f.Name, f.Size)
	}
	if f.Len > f.Size && f.Loc == Inline {
		return f, fmt.Errorf("field %.40q: %d elements in %d bytes", f.Name, f.Len, f.Size)
	}
	return f, nil
}

// declare takes "unsigned long caller[8]" or "__data_loc char[] path" apart.
func (f *Field) declare(decl string) error {
	switch typ, rest, _ := strings.Cut(decl, " "); typ {
	case "__data_loc":
		f.Loc, decl = DataLoc, rest
	case "__rel_loc":
		f.Loc, decl = RelLoc, rest
	}
	at := strings.LastIndexByte(decl, ' ')
	if open := strings.IndexByte(decl, '['); open >= 0 && f.Loc == Inline {
		// Brackets of an array may hold blanks, brackets of an enum's name do
		// not.
		at = strings.LastIndexByte(decl[:open], ' ')
	}
	if at <= 0 || at+1 == len(decl) {
		return fmt.Errorf("%.40q declares nothing", decl)
	}
	f.Type, f.Name = strings.TrimSpace(decl[:at]), decl[at+1:]
	for strings.HasPrefix(f.Name, "*") {
		f.Type, f.Name = f.Type+" *", f.Name[1:]
	}
	if open := strings.IndexByte(f.Name, '['); open >= 0 {
		f.Array = true
		f.Len, _ = strconv.Atoi(strings.TrimSuffix(f.Name[open+1:], "]"))
		f.Name = f.Name[:open]
	}
	if elem, ok := strings.CutSuffix(f.Type, "[]"); ok {
		f.Array, f.Type = true, elem
	}
	if f.Len < 0 || f.Len > maxSize {
		return fmt.Errorf("field %.40q has %d elements", f.Name, f.Len)
	}
	if f.Name == "" || f.Type == "" {
		return fmt.Errorf("%.40q declares nothing", decl)
	}
	return nil
}

package main

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// place is a place of a file: an offset, and whether a thread was at it (see frameRow).
type place struct {
	offset int64
	ran    bool
}

// object is a file, by its build ID.
type object struct {
	id     string // in hex
	paths  []string
	places []place
}

// maxPaths is how many paths of one file are tried: devices have it at different ones.
const maxPaths = 16

// addPath adds one, of which the first ones that came are kept: later reports take no names from
// what is known, whatever they say.
func (o *object) addPath(path string) {
	if len(o.paths) < maxPaths && !slices.Contains(o.paths, path) {
		o.paths = append(o.paths, path)
	}
}

// namer names places of files.
type namer struct{ names symbol.Namer }

// name names all places of a file. Its paths can have different files, of which one has no
// symbols, or that is not the one of the build ID.
func (n *namer) name(o *object) (rows []functionRow) {
	files := o.files()
	for _, at := range o.places {
		row := functionRow{BuildID: o.id, Offset: at.offset, Ran: at.ran}
		var best *symbol.Name
		differ := o.byHand()
		for _, f := range files {
			name := n.names.Name(f, uint64(at.offset), at.ran)
			differ = differ || best != nil && best.Function != "" && name.Function != "" && best.Offset != name.Offset
			best = better(best, name)
		}
		switch {
		case differ:
			row.Reason = some(symbol.Unverified.String())
		case best == nil:
			row.Reason = some(symbol.NoFile.String())
		default:
			row.set(best)
		}
		rows = append(rows, row)
	}
	return rows
}

// better returns the better one of the names that two files with one build ID give to a place.
// a may be nil.
func better(a, b *symbol.Name) *symbol.Name {
	switch {
	case a == nil || hasFile(b) && !hasFile(a):
		return b
	case hasFile(a) && !hasFile(b):
		return a
	case a.Function == "" && b.Function != "" || a.Line == 0 && b.Line > 0:
		return b
	}
	return a
}

// byHand reports whether a user has set the build ID (ld --build-id=0x...): linkers take a
// hash of 8 bytes or more, which says which file it is.
func (o *object) byHand() bool {
	const shortest = 6 // a hash can end in zeros
	return len(o.id) > 2*shortest && strings.Trim(o.id[2*shortest:], "0") == ""
}

// hasFile reports whether a name, or the reason for none, is of the file that was wanted.
func hasFile(n *symbol.Name) bool { return !isMissing(n.Reason.String()) }

// isMissing reports whether a reason is one of a file that was not found.
func isMissing(reason string) bool {
	switch reason {
	case symbol.NoFile.String(), symbol.IDMismatch.String(), symbol.Unreadable.String(), symbol.Unverified.String(), symbol.Replaceable.String():
		return true
	}
	return false
}

// files returns the file at each of its paths, none if the build ID is not one.
func (o *object) files() (files []*filemap.File) {
	var id filemap.BuildID
	if n, err := hex.Decode(id[:min(len(o.id)/2, len(id))], []byte(o.id[:min(len(o.id), 2*len(id))])); err != nil || 2*n != len(o.id) || id.IsZero() {
		return nil
	}
	for _, path := range o.paths {
		files = append(files, &filemap.File{Path: path, BuildID: id, HasID: true})
	}
	return files
}

// set takes a name.
func (f *functionRow) set(n *symbol.Name) {
	f.Function, f.Source, f.Reason = some(clean(n.Function)), some(clean(n.File)), some(n.Reason.String())
	if n.Line > 0 {
		line := int64(n.Line)
		f.Line = &line
	}
	var inlined []string
	for i := range n.Inlined {
		call := &n.Inlined[i]
		text := call.Function
		if call.File != "" {
			text += fmt.Sprintf(" (%s:%d)", call.File, call.Line)
		}
		inlined = append(inlined, text)
	}
	f.Inlined = some(clean(strings.Join(inlined, ", ")))
}

// clean returns a text of a symbol file as it can be in a table.
func clean(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "\ufffd")
}

// complete reports whether a name cannot get better.
func (f *functionRow) complete() bool { return f.Function != nil && f.Line != nil }

// betterThan reports whether a row is to take the place of another one: what a file has said
// is not given up because the file is no longer there.
func (f *functionRow) betterThan(old *functionRow) bool {
	switch {
	case old == nil:
		return true
	case f.Function != nil:
		return old.Function == nil || old.Line == nil && f.Line != nil
	}
	now, before := text0(f.Reason), text0(old.Reason)
	return old.Function == nil && now != before && (isMissing(before) || !isMissing(now))
}

func text0(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

//go:build !device

package anoncode

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"ustack/filemap"
	"ustack/filemap/hotspot"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/escape"
)

// Saved are the names that a Keeper has written.
type Saved struct {
	// Trace identifies the saved trace; Left is how many frames had a name that was not
	// kept.
	Trace string
	Left  int64

	codes  []*filemap.Code
	frames [][]hotspot.Named
	stacks []savedStack // in order
	names  int
}

// savedStack is a stack by its thread, its time, and its turn.
type savedStack struct {
	at        tracefs.Time
	tid, turn int32
	frames    uint32
}

func (s *savedStack) compare(o savedStack) int {
	return cmp.Or(cmp.Compare(s.at, o.at), cmp.Compare(s.tid, o.tid), cmp.Compare(s.turn, o.turn))
}

var (
	errNoNames   = errors.New("not a file of names that ustack has saved")
	errNamesLine = errors.New("not a line of it")
	errManyNames = errors.New("more than ustack saves")
)

// LoadSaved reads what a Keeper has written. A last line without its end is left out: the
// file may have been cut.
func LoadSaved(from io.Reader) (*Saved, error) {
	s := new(Saved)
	r := bufio.NewReaderSize(from, maxKeptLine+1)
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		switch {
		case err == io.EOF && n > 1:
			slices.SortStableFunc(s.stacks, func(a, b savedStack) int { return a.compare(b) })
			return s, nil
		case err == io.EOF:
			return nil, errNoNames
		case err != nil: // too long, too
			return nil, fmt.Errorf("reading saved names, line %d: %w", n, err)
		}
		if err := s.line(n, bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return nil, fmt.Errorf("reading saved names, line %d: %w", n, err)
		}
	}
}

// line takes line n, which counts from 1.
func (s *Saved) line(n int, line []byte) error {
	if n == 1 {
		id, ok := bytes.CutPrefix(line, []byte(namesHead))
		if s.Trace = string(id); !ok {
			return errNoNames
		}
		return nil
	}
	verb, rest, _ := bytes.Cut(line, []byte(" "))
	ok := false
	switch string(verb) {
	case "map", "runtime":
		s.names += len(line)
		ok = s.code(string(verb) == "runtime", rest)
	case "frames":
		s.names += len(line)
		ok = s.list(rest)
	case "stack":
		ok = s.stack(rest)
	case "left":
		var err error
		s.Left, err = strconv.ParseInt(string(rest), 10, 64)
		ok = err == nil && s.Left > 0
	}
	switch {
	case !ok:
		return errNamesLine
	case s.names > maxKeptNames || len(s.stacks) > maxKeptStacks:
		return errManyNames
	}
	return nil
}

// code takes the line of a function.
func (s *Saved) code(runtime bool, rest []byte) bool {
	number, names, ok := bytes.Cut(rest, []byte(" "))
	base := 16
	if runtime {
		base = 10
	}
	at, err := strconv.ParseUint(string(number), base, 64)
	if !ok || err != nil {
		return false
	}
	name, names, inlined := bytes.Cut(names, []byte("\t"))
	c := &filemap.Code{Function: string(escape.Undo(name)), Runtime: runtime}
	if c.Start = at; runtime {
		c.Start, c.Offset = 0, at
	}
	for inlined {
		name, names, inlined = bytes.Cut(names, []byte("\t"))
		c.Inlined = append(c.Inlined, string(escape.Undo(name)))
	}
	s.codes = append(s.codes, c)
	return c.Function != "" && (runtime || c.Inlined == nil)
}

// list takes the line of a stack's frames.
func (s *Saved) list(rest []byte) bool {
	var list []hotspot.Named
	for item := range bytes.SplitSeq(rest, []byte(" ")) {
		frame, rest, _ := bytes.Cut(item, []byte(":"))
		addr, code, _ := bytes.Cut(rest, []byte(":"))
		k, err1 := strconv.ParseUint(string(frame), 10, 16)
		at, err2 := strconv.ParseUint(string(addr), 16, 64)
		n, err3 := strconv.ParseUint(string(code), 10, 32)
		if errors.Join(err1, err2, err3) != nil || n >= uint64(len(s.codes)) {
			return false
		}
		if c := s.codes[n]; !c.Runtime && c.Start > at {
			return false
		}
		list = append(list, hotspot.Named{Frame: int(k), Addr: at, Code: s.codes[n]})
	}
	s.frames = append(s.frames, list)
	return true
}

// stack takes the line of a stack.
func (s *Saved) stack(rest []byte) bool {
	fields := bytes.Split(rest, []byte(" "))
	if len(fields) != 4 {
		return false
	}
	seconds, nanos, _ := bytes.Cut(fields[0], []byte("."))
	sec, err1 := strconv.ParseUint(string(seconds), 10, 32)
	nano, err2 := strconv.ParseUint(string(nanos), 10, 32)
	tid, err3 := strconv.ParseInt(string(fields[1]), 10, 32)
	turn, err4 := strconv.ParseUint(string(fields[2]), 10, 31)
	n, err5 := strconv.ParseUint(string(fields[3]), 10, 32)
	if errors.Join(err1, err2, err3, err4, err5) != nil || len(nanos) != 9 || n >= uint64(len(s.frames)) {
		return false
	}
	at := tracefs.Time(sec)*1e9 + tracefs.Time(nano)
	s.stacks = append(s.stacks, savedStack{at, int32(tid), int32(turn), uint32(n)})
	return true
}

// find returns the functions of a stack, nil if it has none.
func (s *Saved) find(q *resolve.Query, turn int) []hotspot.Named {
	if s == nil {
		return nil
	}
	want := savedStack{at: q.Time, tid: q.TID, turn: int32(turn)}
	i, ok := slices.BinarySearchFunc(s.stacks, want, func(a, b savedStack) int { return a.compare(b) })
	if !ok {
		return nil
	}
	return s.frames[s.stacks[i].frames]
}

//go:build !device && (amd64 || arm64)

package sums

import (
	"time"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/symbol"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// variables names the futexes that are in static variables, by what their processes had mapped.
//
// What a process has mapped is read after a wait of its program has begun, and counts once
// another one has ended in the same memory later: between the two it cannot have been another
// program's. It is read by then at another time than the waits, so a name is no more than late.
type variables struct {
	names futex.Variables // nil names none
	files *files
	// layouts are of programs; found are the variables of futexes, nil for none.
	layouts map[programID]*programLayout
	found   map[futex.FutexID]*symbol.Variable
}

// programID is a program that a process runs.
type programID struct {
	memory, born uint64
	tgid         int32
}

// programLayout is what a program had mapped at a time.
type programLayout struct {
	layout filemap.Layout // nil if it could not be read
	at     tracefs.Time
	read   time.Time
	proven bool
	before *programLayout // the one before, if that is proven
}

func newVariables(names futex.Variables, files *files) *variables {
	return &variables{names: names, files: files, layouts: make(map[programID]*programLayout), found: make(map[futex.FutexID]*symbol.Variable)}
}

// maxFound bounds the futexes that are remembered, as many as the kernel keeps apart by far.
const maxFound = 1 << 16

// seen notes that a process was at a futex at a time, and looks at what it has mapped if that is
// not known.
func (v *variables) seen(f *bpffutex.Futex, at tracefs.Time) {
	if v.names == nil || f.Addr == futex.Several {
		return
	}
	id := programID{f.Memory, f.Born, f.TGID}
	p := v.layouts[id]
	if p != nil && p.layout != nil && at > p.at {
		p.proven = true
	}
	switch {
	case p == nil && len(v.layouts) >= maxProcesses:
		clear(v.layouts)
	case p == nil:
	case p.layout != nil && p.layout.At(f.Addr) != nil, time.Since(p.read) < readAgain:
		return
	}
	fresh := v.read(f)
	if p != nil && p.proven {
		p.before, fresh.before = nil, p
	} else if p != nil {
		fresh.before = p.before
	}
	v.layouts[id] = fresh
}

// read reads what the process of a futex has mapped.
func (v *variables) read(f *bpffutex.Futex) *programLayout {
	p := &programLayout{read: time.Now()}
	h, err := v.files.reader.Open(int(f.TGID))
	if err != nil {
		return p // it has ended, or may not be read
	}
	defer h.Close()
	var list []procmap.Mapping
	err = h.Each(func(m *procmap.Mapping) bool {
		list = append(list, *m)
		return len(list) <= maxAreas
	})
	if err != nil || len(list) > maxAreas || !v.files.same(f.TGID, f.Born) {
		return p
	}
	p.layout, p.at = v.files.layout(list), space.Monotonic()
	return p
}

// maxAreas bounds what is read of a process.
const maxAreas = 1 << 14

// layout returns mappings as a layout, nil if the process has changed while they were read. A
// file is known by its build ID, which code has.
func (f *files) layout(list []procmap.Mapping) (l filemap.Layout) {
	type place struct {
		dev   procmap.Dev
		inode uint64
		name  string
	}
	code := make(map[place]*filemap.File)
	for i := range list {
		if m := &list[i]; m.Kind == procmap.File && m.Perms&procmap.Exec != 0 && !m.BuildID.IsZero() {
			code[place{m.Dev, m.Inode, m.Name}] = f.files.InternID([]byte(m.Name), filemap.BuildID(m.BuildID.Padded()))
		}
	}
	end := uint64(0)
	for i := range list {
		m := &list[i]
		if m.Start < end {
			return nil
		}
		end = m.End
		a := filemap.Area{Start: m.Start, End: m.End, Offset: m.Offset}
		if m.Perms&procmap.Shared == 0 {
			a.Anonymous = m.Kind.IsData()
			a.File = code[place{m.Dev, m.Inode, m.Name}]
			a.Code = a.File != nil && m.Perms&procmap.Exec != 0
		}
		l = append(l, a)
	}
	return l
}

// variable returns the variable that a futex is in, nil if that is not known, and its trust.
func (v *variables) variable(id futex.FutexID) (*symbol.Variable, filemap.Trust) {
	if v.names == nil {
		return nil, filemap.NoTrust
	}
	known, ok := v.found[id]
	if ok {
		return known, filemap.Late
	}
	p := v.layouts[programID{id.Memory, id.Born, id.TGID}]
	if p != nil && !p.proven {
		p = p.before
	}
	if p == nil {
		return nil, filemap.NoTrust
	}
	known = v.names.Variable(p.layout, id.Addr)
	if f, at, ok := v.names.Place(p.layout, id.Addr); known == nil && ok {
		known = &symbol.Variable{Offset: at, File: f}
	}
	if len(v.found) >= maxFound {
		clear(v.found)
	}
	if known != nil {
		v.found[id] = known
	}
	return known, filemap.Late
}

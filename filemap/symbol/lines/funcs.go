package lines

import (
	"cmp"
	"slices"
	"strings"
)

// run is a run of addresses of a function, of a unit or of a node of a tree, each of which may
// have several.
type run struct {
	low, high uint64
	of        uint64 // the function's place in .debug_info, the unit's index, or the node's
}

// byAddress orders runs: those that begin at one address with the longest first.
func byAddress(a, b run) int {
	return cmp.Or(byPlace(a, b), cmp.Compare(a.of, b.of))
}

// byPlace is byAddress for runs of which it does not matter whose they are.
func byPlace(a, b run) int {
	return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(b.high, a.high))
}

// Location is what debug information has of an address.
type Location struct {
	// File and Line are the place in the source: in the innermost inlined
	// function if there is one. Line 0 is code without a line.
	File string
	Line int
	// Function is the function that is there as a whole, "" if unknown, and
	// Low where the run of its addresses begins that holds this one.
	Function string
	Low      uint64
	// Inlined are the functions inlined there, innermost first.
	Inlined []Inline
}

// Inline is one inlined function, and where it was called.
type Inline struct {
	Function string
	CallFile string
	CallLine int
}

// Find looks an address up. ok is false if the debug information does not have it.
// An error is of the file, not of the address. symbol is the symbol that names the
// address, "" if none does: where a linker has folded functions with the same code into
// one, each still has its debug information, and what counts is that of the symbol's. If
// that is not found, line and inlined functions are unknown.
func (d *Data) Find(addr uint64, symbol string) (l Location, ok bool, err error) {
	folded := false
	d.candidates(addr, func(u *unit) bool {
		var one Location
		in, e := d.findIn(u, addr, symbol, &one)
		if err = e; err != nil || !in {
			return err != nil
		}
		if symbol == "" || isOf(symbol, one.Function) {
			l, ok, folded = one, true, false
			return true
		}
		if !ok {
			l, ok = one, true
		}
		folded = folded || one.Function != l.Function && one.Low == l.Low
		return false
	})
	if folded {
		l.File, l.Line, l.Inlined = "", 0, nil
	}
	return l, ok && err == nil, err
}

// isOf reports whether a symbol is that of a function, or of a part or copy of it that a
// compiler has made: its name goes on with a dot then.
func isOf(symbol, function string) bool {
	rest, ok := strings.CutPrefix(symbol, function)
	return ok && function != "" && (rest == "" || rest[0] == '.' || rest[0] == '@')
}

// findIn looks an address up in a unit.
func (d *Data) findIn(u *unit, addr uint64, symbol string, l *Location) (bool, error) {
	if !u.rooted {
		if _, err := d.root(u); err != nil {
			return false, err
		}
	}
	in, err := d.load(u)
	if err != nil {
		return false, err
	}
	t, err := d.lineTable(u, in)
	if err != nil {
		return false, err
	}
	found := false
	if r := t.find(addr); r != nil {
		l.File, l.Line, found = t.file(d, u, uint64(r.file)), int(r.line), true
	}
	if err := d.list(u, in); err != nil {
		return false, err
	}
	if f := in.function(addr); f != nil {
		f, folded := d.foldedAs(in, f, symbol)
		l.Function, l.Low, found = d.functionName(f.of), f.low, true
		if folded { // the line may be that of another one
			l.File, l.Line = "", 0
		}
		if folded && symbol != "" && !isOf(symbol, l.Function) {
			return true, nil
		}
		if err := d.inlines(u, in, t, f.of, addr, l); err != nil {
			return false, err
		}
	}
	return found, nil
}

// function returns the narrowest run of addresses of a function that holds
// addr.
func (in *contents) function(addr uint64) *run {
	i, _ := slices.BinarySearchFunc(in.funcs, addr, func(f run, a uint64) int {
		if f.low <= a {
			return -1
		}
		return 1
	})
	const most = 64 // functions lie in functions only in some languages
	for n := 0; i > 0 && n < most; n++ {
		i--
		if f := &in.funcs[i]; addr < f.high {
			return f
		}
	}
	return nil
}

// foldedAs returns the function of a symbol, of those of a unit that have the same
// addresses as f; f if none is. folded is whether some are other functions.
func (d *Data) foldedAs(in *contents, f *run, symbol string) (of *run, folded bool) {
	const most = 64
	same := func(r *run) bool { return r.low == f.low && r.high == f.high }
	first, _ := slices.BinarySearchFunc(in.funcs, *f, byPlace)
	of = f
	for i := first; i < min(len(in.funcs), first+most) && same(&in.funcs[i]); i++ {
		r := &in.funcs[i]
		folded = folded || r.of != f.of && d.functionName(r.of) != d.functionName(f.of)
		if symbol != "" && isOf(symbol, d.functionName(r.of)) {
			of, symbol = r, ""
		}
	}
	return of, folded
}

// list finds the functions of a unit that have code.
func (d *Data) list(u *unit, in *contents) error {
	if in.listed {
		return nil
	}
	c := cursor{b: in.bytes, at: int(u.first), order: d.order}
	var e entry
	for c.left() > 0 {
		if err := u.entry(&c, in.tables, &e); err != nil {
			return err
		}
		if e.tag != tagSubprogram {
			continue
		}
		off := e.off
		err := d.each(u, &e, func(low, high uint64) {
			if d.isCode(low) && len(in.funcs) <= maxRuns {
				in.funcs = append(in.funcs, run{low, high, off})
			}
		})
		if err == ErrTooMuch || len(in.funcs) > maxRuns {
			return ErrTooMuch
		}
	}
	slices.SortFunc(in.funcs, byAddress)
	in.funcs, in.listed = slices.Clip(in.funcs), true
	d.charge(u, 24*len(in.funcs))
	return d.spend(len(in.bytes))
}

// inline reads an entry of an inlined function.
func (d *Data) inline(u *unit, t *table, e *entry) Inline {
	i := Inline{CallLine: int(min(e.callLine.n, 1<<31-1))}
	switch {
	case e.origin.kind == isRef:
		i.Function = d.functionName(e.origin.n)
	case e.origin.kind == isAltRef && d.alt != nil:
		i.Function = d.alt.functionName(e.origin.n)
	}
	if e.callFile.kind == isNumber {
		i.CallFile = t.file(d, u, e.callFile.n)
	}
	return i
}

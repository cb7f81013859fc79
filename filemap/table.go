package filemap

import (
	"slices"

	"ustack/tracefs"
)

// Pos is a place in the input: how many records are before it. Order of positions is
// order of records.
type Pos int64

// Binding says that an identifier means a file from a place in the input on.
type Binding struct {
	File *File
	// From is where the binding comes into force: at the stack that made the
	// kernel announce it, or at the mapping event if no stack is known to
	// have.
	From Pos
	// At is where the mapping event itself stands, Time and Source its time
	// and input.
	At     Pos
	Time   tracefs.Time
	Source uint8
	// Owned is set if From is the place of a stack.
	Owned bool
	// Report: it is of a report, which trusts all frames that have the
	// identifier in this way.
	Report bool
	Trust  Trust
}

// Entry has the bindings of one identifier.
type Entry struct {
	ID tracefs.Identifier
	// LastUse is about the place of the last stack that carried the identifier.
	LastUse Pos
	// Version changes when the identifier's meaning may have changed. It only
	// grows.
	Version int64
	// Forgotten is set if the table may have dropped bindings of it.
	Forgotten bool
	// bindings are the last mapping events, in the order they came.
	bindings []Binding
}

// maxBindings is how many mapping events of an identifier are kept. All are
// repeats or reuses within what is pending; older ones no longer matter.
const maxBindings = 32

// Bind adds a mapping event. It reports whether one of the kept bindings of the
// identifier is to another file.
func (e *Entry) Bind(b Binding) (rival bool) {
	if len(e.bindings) == maxBindings {
		e.bindings = slices.Delete(e.bindings, 0, 1)
	}
	e.bindings = append(e.bindings, b)
	rival = e.Rival(&b)
	if rival || len(e.bindings) == 1 {
		e.Version++
	}
	return rival
}

// Disown notes that the mapping event at a place was made because of no known stack.
func (e *Entry) Disown(at Pos) {
	for i := range e.bindings {
		if b := &e.bindings[i]; b.At == at {
			b.From, b.Owned = at, false
			e.Version++
		}
	}
}

// At returns the binding in force at a place, the one with the latest start
// before it; nil if there is none. It is ambiguous if an older claim than that
// came to light after it: the kernel then had both at once, and which one it kept
// is unknown.
func (e *Entry) At(pos Pos) (b *Binding, ambiguous bool) {
	for i := range e.bindings {
		if x := &e.bindings[i]; x.From <= pos && (b == nil || x.From >= b.From) {
			b = x
		}
	}
	if b == nil {
		return nil, false
	}
	for i := range e.bindings {
		if x := &e.bindings[i]; x.File != b.File && x.From < b.From && x.At > b.At {
			return b, true
		}
	}
	return b, false
}

// Last returns the newest mapping event, nil if there is none.
func (e *Entry) Last() *Binding {
	if len(e.bindings) == 0 {
		return nil
	}
	return &e.bindings[len(e.bindings)-1]
}

// First returns the oldest mapping event after a place that is kept, nil if
// there is none.
func (e *Entry) First(pos Pos) *Binding {
	for i := range e.bindings {
		if e.bindings[i].At > pos {
			return &e.bindings[i]
		}
	}
	return nil
}

// Rival reports whether the identifier has meant another file than b's.
func (e *Entry) Rival(b *Binding) bool {
	return slices.ContainsFunc(e.bindings, func(x Binding) bool { return x.File != b.File })
}

// age returns the last place at which the identifier was seen.
func (e *Entry) age() Pos {
	if b := e.Last(); b != nil {
		return max(e.LastUse, b.At)
	}
	return e.LastUse
}

// Table has the meaning of identifiers, over time. Its size is bounded: when it
// is full, the identifiers that were not used for longest are forgotten.
type Table struct {
	entries map[tracefs.Identifier]*Entry
	recent  [1 << recentBits]*Entry
	limit   int
	// Forgot counts the identifiers that were dropped.
	Forgot int64
	// Version changes when an entry's Version does.
	Version int64
	dropped []uint64 // a Bloom filter of them
}

const (
	recentBits = 10
	bloomBits  = 23 // 1 MiB
)

// NewTable returns an empty table of at most limit identifiers.
func NewTable(limit int) *Table {
	return &Table{entries: make(map[tracefs.Identifier]*Entry), limit: limit}
}

// Len returns the number of identifiers in the table.
func (t *Table) Len() int { return len(t.entries) }

// Entry returns the entry of an identifier, a new one if there is none.
func (t *Table) Entry(id tracefs.Identifier) *Entry {
	slot := &t.recent[id.Hash()>>(64-recentBits)]
	if e := *slot; e != nil && e.ID == id {
		return e
	}
	e := t.entries[id]
	if e == nil {
		if len(t.entries) >= t.limit {
			t.Forget()
		}
		e = &Entry{ID: id, Forgotten: t.Forgot > 0 && t.wasDropped(id)}
		t.entries[id] = e
	}
	*slot = e
	return e
}

// Forget drops the half of the entries that was not used for longest.
func (t *Table) Forget() {
	ages := make([]Pos, 0, len(t.entries))
	for _, e := range t.entries {
		ages = append(ages, e.age())
	}
	if len(ages) == 0 {
		return
	}
	slices.Sort(ages)
	middle := ages[len(ages)/2]
	if t.dropped == nil {
		t.dropped = make([]uint64, 1<<bloomBits/64)
	}
	for id, e := range t.entries {
		if e.age() <= middle {
			delete(t.entries, id)
			e.Version++
			t.markDropped(id)
			t.Forgot++
		}
	}
	t.Version++
	clear(t.recent[:])
}

// bloom returns the bits of an identifier.
func bloom(id tracefs.Identifier) [3]uint64 {
	h := id.Hash()
	h ^= h >> 29
	const mask = 1<<bloomBits - 1
	return [3]uint64{h & mask, h >> 20 & mask, h >> 40 & mask}
}

func (t *Table) markDropped(id tracefs.Identifier) {
	for _, bit := range bloom(id) {
		t.dropped[bit/64] |= 1 << (bit % 64)
	}
}

// wasDropped reports whether an identifier may have been dropped. It has rare false
// positives, which cost an identifier its name.
func (t *Table) wasDropped(id tracefs.Identifier) bool {
	for _, bit := range bloom(id) {
		if t.dropped[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// Files returns the files that the table's bindings name.
func (t *Table) Files() map[*File]bool {
	set := make(map[*File]bool, len(t.entries))
	for _, e := range t.entries {
		for i := range e.bindings {
			set[e.bindings[i].File] = true
		}
	}
	return set
}

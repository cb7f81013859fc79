package perfetto

import (
	"encoding/binary"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/profile"
)

// maxInterned bounds the entries of all tables, and so the memory of a Writer and
// of a reader; a generation of interned data ends there.
const maxInterned = 1 << 17

// maxTexts bounds the bytes of their texts.
const maxTexts = 16 << 20

// tables are what has been interned in this generation. Numbers count from 1, and
// go on over generations.
type tables struct {
	namer   *profile.Namer
	entries int
	texts   int
	last    uint64

	texted   map[textKey]uint64
	buildIDs map[filemap.BuildID]uint64
	mappings map[mappingKey]uint64
	frames   map[frameKey]uint64
	places   map[place][]uint64
	stacks   map[string]uint64

	stack []byte // scratch
}

// textKey is a text in a table of InternedData.
type textKey struct {
	table field
	text  string
}

type mappingKey struct{ path, buildID uint64 }

type frameKey struct {
	function, mapping, relPC, source uint64
	line                             int
}

// place is a frame in a stack; it is several frames if functions are inlined there.
type place struct {
	profile.Frame
	ran bool
}

func newTables() tables {
	t := tables{namer: profile.NewNamer()}
	t.clear()
	return t
}

func (t *tables) clear() {
	t.entries, t.texts = 0, 0
	t.texted, t.buildIDs, t.mappings = make(map[textKey]uint64), make(map[filemap.BuildID]uint64), make(map[mappingKey]uint64)
	t.frames, t.places, t.stacks = make(map[frameKey]uint64), make(map[place][]uint64), make(map[string]uint64)
}

// room begins a new generation of interned data if the tables are full. It must
// not be called while a packet is being made.
func (w *Writer) room() {
	if w.tables.entries >= maxInterned || w.tables.texts >= maxTexts {
		w.tables.clear()
		w.cleared = true
	}
}

// next returns the number of a new entry.
func (t *tables) next() uint64 {
	t.entries++
	t.last++
	return t.last
}

// intern returns the number of a text in a table.
func (w *Writer) intern(table field, text string) uint64 {
	text = shorten(text)
	key := textKey{table, text}
	if id, ok := w.tables.texted[key]; ok {
		return id
	}
	id := w.tables.next()
	w.tables.texts += len(text)
	w.tables.texted[key] = id
	w.interned.entry(table, id, valid(text))
	return id
}

func (w *Writer) category(text string) uint64   { return w.intern(internedCategories, text) }
func (w *Writer) eventName(text string) uint64  { return w.intern(internedEventNames, text) }
func (w *Writer) annotation(text string) uint64 { return w.intern(internedAnnotationNames, text) }

// callstack returns the number of an event's stack, 0 for none: readers take an empty
// one for an error.
func (w *Writer) callstack(e *Event) uint64 {
	frames := e.Stack
	if len(frames) == 0 {
		return 0
	}
	t := &w.tables
	t.stack = t.stack[:0]
	if e.Cut { // outermost frame first
		t.stack = binary.AppendUvarint(t.stack, w.dummy(profile.Truncated))
	}
	for i := len(frames) - 1; i >= 0; i-- {
		var fn *symbol.Function
		if len(e.Functions) > 0 {
			fn = &e.Functions[i]
		}
		if skipped, its := profile.Skipped(fn); skipped != nil {
			w.addPlace(skipped, its, false)
		}
		w.addPlace(&frames[i], fn, i == 0)
	}
	if id, ok := t.stacks[string(t.stack)]; ok {
		return id
	}
	id := t.next()
	t.texts += len(t.stack)
	t.stacks[string(t.stack)] = id
	w.part = w.part[:0]
	w.part.uint(callstackIID, id)
	for rest := t.stack; len(rest) > 0; {
		frame, n := binary.Uvarint(rest)
		rest = rest[n:]
		w.part.uint(callstackFrame, frame)
	}
	w.interned.bytes(internedCallstacks, w.part)
	return id
}

// addPlace adds the functions of a frame to the stack.
func (w *Writer) addPlace(f *profile.Frame, fn *symbol.Function, ran bool) {
	for _, id := range w.place(f, fn, ran) {
		w.tables.stack = binary.AppendUvarint(w.tables.stack, id)
	}
}

// place returns the numbers of a frame's functions, outermost first.
func (w *Writer) place(f *profile.Frame, fn *symbol.Function, ran bool) []uint64 {
	key := place{*f, ran}
	if ids, ok := w.tables.places[key]; ok {
		return ids
	}
	var at frameKey
	if f.File != nil {
		at.mapping, at.relPC = w.mapping(f.File), f.Call(ran)
	}
	lines := w.tables.namer.Lines(f, fn)
	ids := make([]uint64, len(lines))
	for i, l := range lines {
		at.function, at.source, at.line = w.intern(internedFunctions, l.Name), 0, 0
		if l.File != "" {
			at.source, at.line = w.intern(internedSources, l.File), max(l.Line, 0)
		}
		ids[len(lines)-1-i] = w.frame(at)
	}
	w.tables.entries++
	w.tables.places[key] = ids
	return ids
}

// dummy returns the number of a frame that is only a name.
func (w *Writer) dummy(name string) uint64 {
	return w.frame(frameKey{function: w.intern(internedFunctions, name)})
}

func (w *Writer) frame(at frameKey) uint64 {
	if id, ok := w.tables.frames[at]; ok {
		return id
	}
	id := w.tables.next()
	w.tables.frames[at] = id
	w.part = w.part[:0]
	m := &w.part
	m.uint(frameIID, id)
	m.uint(frameFunction, at.function)
	if at.mapping != 0 {
		m.uint(frameMapping, at.mapping)
		m.uint(frameRelPC, at.relPC)
	}
	if at.source != 0 {
		m.uint(frameSource, at.source)
		m.uint(frameLine, uint64(uint32(at.line)))
	}
	w.interned.bytes(internedFrames, w.part)
	return id
}

// mapping returns the number of a file. Where it was mapped is left out: frames
// are places in files, not addresses. rel_pc is the offset in the file, as the
// mapping has no load_bias: a symbolizer adds the file's own.
func (w *Writer) mapping(f *filemap.File) uint64 {
	key := mappingKey{path: w.intern(internedPaths, f.Path)}
	if !f.BuildID.IsZero() {
		key.buildID = w.buildID(f.BuildID)
	}
	if id, ok := w.tables.mappings[key]; ok {
		return id
	}
	id := w.tables.next()
	w.tables.mappings[key] = id
	w.part = w.part[:0]
	w.part.uint(mappingIID, id)
	if key.buildID != 0 {
		w.part.uint(mappingBuildID, key.buildID)
	}
	w.part.uint(mappingPath, key.path)
	w.interned.bytes(internedMappings, w.part)
	return id
}

// buildID returns the number of a build ID, which is bytes here, not a text.
func (w *Writer) buildID(b filemap.BuildID) uint64 {
	if id, ok := w.tables.buildIDs[b]; ok {
		return id
	}
	id := w.tables.next()
	w.tables.buildIDs[b] = id
	w.interned.entry(internedBuildIDs, id, string(b[:]))
	return id
}

package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"ustack/filemap"
)

// A cause is what threads wait for, at which place, and which place lets them go on: the kind of
// the lock, and the innermost frames of waiter and owner that are not of the C library. One of
// these frames may differ: replaced, added or left out.
//
// Which stacks are of one cause does not depend on the order of reports: those that cost most
// are centers, and the others join the first center from which they differ by one frame. So
// causes do not grow from one to the next similar one.

// causeFrames is how many frames are compared. One more is read, for one that was added.
const causeFrames = 5

// variant is waits of one kind with one stack and one owner's stack.
type variant struct {
	kind         string
	stack, owner uint64 // 0 is none
	total        float64
	waits        int64
	devices      map[string]bool
	name         *string // of the lock, of those the first

	waiter, holder []frameKey
	key            uint64 // of kind and frames
}

// frameKey is a frame as it is on all devices.
type frameKey struct {
	file   string // build ID, or path without one
	offset int64
	ran    bool
}

// cause is a center with what has joined it.
type cause struct {
	center   *variant
	total    float64
	waits    int64
	variants int64
	devices  map[string]bool
	name     *string
}

// add adds waits.
func (c *cause) add(v *variant) {
	c.total += v.total
	c.waits += v.waits
	c.variants++
	for d := range v.devices {
		c.devices[d] = true
	}
	if v.name != nil && (c.name == nil || *v.name < *c.name) {
		c.name = v.name
	}
}

// causesOf returns causes, those that cost most first.
func causesOf(variants []*variant) []*cause {
	for _, v := range variants {
		v.key = sumOfKey("", v.kind, v.waiter, v.holder)
	}
	slices.SortFunc(variants, func(a, b *variant) int {
		return cmp.Or(cmp.Compare(math.Round(b.total), math.Round(a.total)), cmp.Compare(a.key, b.key), cmp.Compare(a.stack, b.stack), cmp.Compare(a.owner, b.owner))
	})
	var list []*cause
	known := make(map[uint64]int) // keys of centers
	for _, v := range variants {
		at, keys := -1, v.keys()
		for _, k := range keys {
			if n, ok := known[k.ask]; ok && (at < 0 || n < at) {
				at = n
			}
		}
		if at < 0 {
			at = len(list)
			list = append(list, &cause{center: v, devices: make(map[string]bool)})
			for _, k := range keys {
				if _, ok := known[k.is]; !ok {
					known[k.is] = at
				}
			}
		}
		list[at].add(v)
	}
	slices.SortStableFunc(list, func(a, b *cause) int { return cmp.Compare(math.Round(b.total), math.Round(a.total)) })
	return list
}

// causeKey is one that a center has, and one for which another one is looked up: a center whose key
// is the same differs by one frame at most.
type causeKey struct{ is, ask uint64 }

// keys returns the keys of a variant.
func (v *variant) keys() (keys []causeKey) {
	whole := func(frames []frameKey) []frameKey { return frames[:min(len(frames), causeFrames)] }
	w, o := whole(v.waiter), whole(v.holder)
	same := sumOfKey("same", v.kind, w, o)
	keys = append(keys, causeKey{same, same})
	for _, side := range []struct {
		name   string
		frames []frameKey
		sum    func(what string, left []frameKey) uint64
	}{
		{"waiter", v.waiter, func(what string, left []frameKey) uint64 { return sumOfKey(what, v.kind, left, o) }},
		{"owner", v.holder, func(what string, left []frameKey) uint64 { return sumOfKey(what, v.kind, w, left) }},
	} {
		for i := range min(len(side.frames), causeFrames+1) {
			left := slices.Delete(slices.Clone(side.frames[:min(len(side.frames), causeFrames+1)]), i, i+1)
			if len(left) < leastFrames {
				continue
			}
			replaced := side.sum(fmt.Sprint("replaced", side.name, i), left)
			// Without the frame it is what another one is as a whole, and the reverse.
			without, less := side.sum("same", left), side.sum(fmt.Sprint("less", side.name), left)
			keys = append(keys, causeKey{replaced, replaced}, causeKey{less, without})
		}
		if len(side.frames) >= leastFrames {
			less := side.sum(fmt.Sprint("less", side.name), whole(side.frames))
			keys = append(keys, causeKey{same, less})
		}
	}
	return keys
}

// leastFrames is how many frames must be the same beside one that differs: the outermost one of
// all threads of a program is often the same.
const leastFrames = 2

// sumOfKey returns the xxhash of what is compared.
func sumOfKey(what, kind string, waiter, holder []frameKey) uint64 {
	b := appendText(appendText(nil, &what), &kind)
	for _, frames := range [][]frameKey{waiter, holder} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(frames)))
		for _, f := range frames {
			b = binary.LittleEndian.AppendUint64(appendText(b, &f.file), uint64(f.offset))
			if f.ran {
				b = append(b, 'r')
			}
		}
	}
	return xxhash.Sum64(b)
}

// variantKey is what waits of one variant have in common.
type variantKey struct {
	kind         string
	stack, owner uint64
}

// causes gathers variants.
type causes struct {
	variants map[variantKey]*variant
	frames   map[uint64][]frameKey // of stacks, those that are not of the C library
	texts    map[frameKey]string   // file+offset
	most     int                   // of variants
}

// maxVariants bounds time and memory: as many took 14 s and 320 MB.
const maxVariants = 1 << 20

func newCauses() *causes {
	return &causes{most: maxVariants, variants: make(map[variantKey]*variant), frames: make(map[uint64][]frameKey), texts: make(map[frameKey]string)}
}

// sample adds a wait.
func (c *causes) sample(s *sampleRow) error {
	k := variantKey{kind: text0(s.LockKind)}
	if s.Stack != nil {
		k.stack = *s.Stack
	}
	if s.OwnerStack != nil {
		k.owner = *s.OwnerStack
	}
	v := c.variants[k]
	if v == nil {
		if len(c.variants) >= c.most {
			return fmt.Errorf("more than %d different pairs of stacks of waiters and owners: ask about the reports of fewer devices", c.most)
		}
		v = &variant{kind: k.kind, stack: k.stack, owner: k.owner, devices: make(map[string]bool)}
		c.variants[k] = v
	}
	v.total += float64(*s.NS) * s.Weight
	v.waits++
	v.devices[s.Device] = true
	if s.LockName != nil && (v.name == nil || *s.LockName < *v.name) {
		v.name = s.LockName
	}
	return nil
}

// wanted has frames taken of the stacks of variants only: stores have others, of events.
func (c *causes) wanted() {
	for k := range c.variants {
		c.frames[k.stack], c.frames[k.owner] = nil, nil
	}
}

// frame adds a frame of a stack; they come from the innermost one on.
func (c *causes) frame(f *frameRow) error {
	if _, ok := c.frames[f.Stack]; !ok {
		return nil
	}
	if f.Path == nil || len(c.frames[f.Stack]) > causeFrames || !(&filemap.File{Path: *f.Path}).Application() {
		return nil
	}
	k := frameKey{file: *f.Path, offset: -1, ran: f.Ran}
	if f.BuildID != nil {
		k.file = *f.BuildID
	}
	if f.Offset != nil {
		k.offset = *f.Offset
	}
	c.frames[f.Stack] = append(c.frames[f.Stack], k)
	text := path.Base(*f.Path)
	if f.Offset != nil {
		text = fmt.Sprintf("%s+%#x", text, k.offset)
	}
	// Devices can have a file at different paths.
	if c.texts[k] == "" || text < c.texts[k] {
		c.texts[k] = text
	}
	return nil
}

// list returns the causes.
func (c *causes) list() []*cause {
	var all []*variant
	for _, v := range c.variants {
		v.waiter, v.holder = c.frames[v.stack], c.frames[v.owner]
		all = append(all, v)
	}
	return causesOf(all)
}

// causes answers which causes cost most.
func (a *answers) causes(parts []string) (columns []string, rows [][]any, err error) {
	columns = []string{"total_ns", "waits", "devices", "variants", "kind", "lock", "waiter", "owner"}
	a.gathered.wanted()
	for _, part := range parts {
		if err := eachRow(part, tableFrames, a.gathered.frame); err != nil {
			return nil, nil, err
		}
	}
	list := a.gathered.list()
	list = list[:min(len(list), a.f.Top)]
	names, err := causeNames(a.f.Dir, list)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range list {
		say := func(frames []frameKey) any {
			var words []string
			for _, f := range frames[:min(len(frames), saidFrames)] {
				word := a.gathered.texts[f]
				if name := names[f]; name != "" {
					word = name
				}
				words = append(words, word)
			}
			return textOf(some(strings.Join(words, " < ")))
		}
		v := c.center
		rows = append(rows, []any{int64(math.Round(c.total)), c.waits, int64(len(c.devices)), c.variants, textOf(some(v.kind)), textOf(c.name), say(v.waiter), say(v.holder)})
	}
	return columns, rows, nil
}

// saidFrames is how many frames an answer has of a stack.
const saidFrames = 3

// causeNames returns the functions of the frames of causes, as far as they have been named.
func causeNames(dir string, list []*cause) (map[frameKey]string, error) {
	names := make(map[frameKey]string)
	tables, err := functionTables(dir)
	if err != nil || len(tables) == 0 {
		return names, err
	}
	for _, c := range list {
		for _, frames := range [][]frameKey{c.center.waiter, c.center.holder} {
			for _, f := range frames {
				names[f] = ""
			}
		}
	}
	return names, eachRow(tables[len(tables)-1].dir, tableFunctions, func(f *functionRow) error {
		k := frameKey{f.BuildID, f.Offset, f.Ran}
		if _, ok := names[k]; ok {
			names[k] = text0(f.Function)
		}
		return nil
	})
}

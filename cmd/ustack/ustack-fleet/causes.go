package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/render/cause"
)

// What a cause is, package cause says.
//
// Which stacks are of one cause does not depend on the order of reports: those that cost most
// are centers, and the others join the first center from which they differ by one frame. So
// causes do not grow from one to the next similar one.

// variant is waits of one kind with one stack and one owner's stack.
type variant struct {
	kind         string
	stack, owner uint64 // 0 is none
	total        float64
	waits        int64
	devices      []int32 // by number; one may be there again, but not next to itself
	name         *string // of the lock, of those the first

	waiter, holder []frameKey
	is             *cause.Cause
	key            uint64 // of that
}

// frameKey is a frame as it is on all devices.
type frameKey struct {
	file   string // build ID, or path without one
	offset int64
	ran    bool
}

// cluster is a center with what has joined it.
type cluster struct {
	center   *variant
	total    float64
	waits    int64
	variants int64
	devices  []int32
	name     *string
}

// add adds waits.
func (c *cluster) add(v *variant) {
	c.total += v.total
	c.waits += v.waits
	c.variants++
	c.devices = append(c.devices, v.devices...)
	if v.name != nil && (c.name == nil || *v.name < *c.name) {
		c.name = v.name
	}
}

// causesOf returns causes, those that cost most first.
func causesOf(variants []*variant) []*cluster {
	for _, v := range variants {
		v.is = v.cause()
		v.key = v.is.Sum()
	}
	slices.SortFunc(variants, func(a, b *variant) int {
		return cmp.Or(cmp.Compare(wholeNS(b.total), wholeNS(a.total)), cmp.Compare(a.key, b.key), cmp.Compare(a.stack, b.stack), cmp.Compare(a.owner, b.owner))
	})
	var list []*cluster
	centers := cause.NewIndex()
	for _, v := range variants {
		at, ok := centers.Find(v.is, len(list))
		if !ok {
			list = append(list, &cluster{center: v})
		}
		list[at].add(v)
	}
	slices.SortStableFunc(list, func(a, b *cluster) int { return cmp.Compare(wholeNS(b.total), wholeNS(a.total)) })
	return list
}

// cause returns what decides which cause a variant has.
func (v *variant) cause() *cause.Cause {
	frames := func(list []frameKey) (frames []cause.Frame) {
		for _, f := range list {
			frames = append(frames, cause.FrameOf(f.file, f.offset, f.ran))
		}
		return frames
	}
	return &cause.Cause{Kind: v.kind, Waiter: frames(v.waiter), Owner: frames(v.holder)}
}

// variantKey is what waits of one variant have in common.
type variantKey struct {
	kind         string
	stack, owner uint64
}

// causes gathers variants.
type causes struct {
	variants  map[variantKey]*variant
	frames    map[uint64][]frameKey // of stacks, those that are not of the C library
	texts     map[frameKey]string   // file+offset
	most      int                   // of variants
	numbers   map[string]int32      // of devices
	mostPairs int
	pairs     int // devices of all variants
}

// maxVariantDevices bounds the memory for devices: four bytes each, twice.
const maxVariantDevices = 1 << 24

// device returns the number of a device.
func (c *causes) device(name string) int32 {
	d, ok := c.numbers[name]
	if !ok {
		d = int32(len(c.numbers))
		c.numbers[name] = d
	}
	return d
}

// maxVariants bounds time and memory: as many took 14 s and 320 MB.
const maxVariants = 1 << 20

func newCauses() *causes {
	return &causes{most: maxVariants, mostPairs: maxVariantDevices, variants: make(map[variantKey]*variant), frames: make(map[uint64][]frameKey), texts: make(map[frameKey]string), numbers: make(map[string]int32)}
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
		v = &variant{kind: k.kind, stack: k.stack, owner: k.owner}
		c.variants[k] = v
	}
	v.total += float64(*s.NS) * s.Weight
	v.waits++
	if d := c.device(s.Device); len(v.devices) == 0 || v.devices[len(v.devices)-1] != d {
		if c.pairs++; c.pairs > c.mostPairs {
			if c.compact(); c.pairs > c.mostPairs/2 { // else it would be done again and again
				return fmt.Errorf("more than %d times a device with a pair of stacks: ask about the reports of fewer devices", c.mostPairs/2)
			}
		}
		v.devices = append(v.devices, d)
	}
	if s.LockName != nil && (v.name == nil || *s.LockName < *v.name) {
		v.name = s.LockName
	}
	return nil
}

// compact keeps each device of a variant once: its reports come between those of others.
func (c *causes) compact() {
	c.pairs = 0
	for _, v := range c.variants {
		slices.Sort(v.devices)
		v.devices = slices.Compact(v.devices)
		c.pairs += len(v.devices)
	}
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
	if f.Path == nil || len(c.frames[f.Stack]) >= cause.MostFrames || !(&filemap.File{Path: *f.Path}).Application() {
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
func (c *causes) list() []*cluster {
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
		slices.Sort(c.devices)
		c.devices = slices.Compact(c.devices)
		rows = append(rows, []any{wholeNS(c.total), c.waits, int64(len(c.devices)), c.variants, textOf(some(v.kind)), textOf(c.name), say(v.waiter), say(v.holder)})
	}
	return columns, rows, nil
}

// saidFrames is how many frames an answer has of a stack.
const saidFrames = 3

// causeNames returns the functions of the frames of causes, as far as they have been named.
func causeNames(dir string, list []*cluster) (map[frameKey]string, error) {
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

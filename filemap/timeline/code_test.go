package timeline

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// TestCodeIndex: what an index answers is what all mappings, looked through, say.
func TestCodeIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		spaces := space.New()
		for i := range uint64(r.IntN(60)) {
			m := elf(fmt.Sprint("/lib/", r.IntN(5)), (i+1)<<20, (i+1)<<20+uint64(1+r.IntN(4))<<12, uint64(r.IntN(6))<<12)
			m.Inode = uint64(r.IntN(4))
			if r.IntN(8) == 0 {
				m = memory("", m.Start, m.End)
			}
			if r.IntN(8) == 0 {
				m.Perms &^= procmap.Exec
			}
			if r.IntN(8) == 0 {
				m.Name += " (deleted)"
			}
			spaces.Map(1, m, tracefs.Time(1000+r.IntN(50)))
		}
		v := spaces.Space(1).At(2000)
		if v == nil {
			continue
		}
		all := &code{all: v.Mappings}
		indexed := &code{all: v.Mappings, index: newCodeIndex(v.Mappings)}
		files := []*space.File{nil}
		for m := range v.Mappings.All() {
			files = append(files, m.File)
		}
		for range 100 {
			offset, at := uint64(r.IntN(12))<<12+uint64(r.IntN(3)*0x7ff), tracefs.Time(995+r.IntN(60))
			x, y := all.holding(offset, at), indexed.holding(offset, at)
			if !slices.Equal(byAddress(x.list), byAddress(y.list)) {
				t.Fatalf("%#x at %d: %d mappings, want %d", offset, at, len(y.list), len(x.list))
			}
			f := files[r.IntN(len(files))]
			than := tracefs.Time(995 + r.IntN(60))
			name := &filemap.File{Path: fmt.Sprint("/lib/", r.IntN(6))}
			n := fileNumber{uint64(r.IntN(5)), procmap.Dev{Major: 8}}
			answers := func(c *candidates) string {
				in, only := c.of(f)
				is, one := c.match(announced{file: name})
				if !one {
					is = nil // any of them
				}
				numbered, several := c.numbered(n)
				return fmt.Sprintf("%p %t, %t, %t %t %t, %p %t, %p %t", in, only, c.newer(f, than), c.maps(f), c.mapsAs(announced{file: name}), c.mapsNumber(n), numbered, several, is, one)
			}
			if want, got := answers(&x), answers(&y); got != want {
				t.Fatalf("%#x at %d: %s, want %s", offset, at, got, want)
			}
		}
	}
}

func byAddress(list []*space.Mapping) []*space.Mapping {
	return slices.SortedFunc(slices.Values(list), func(m, n *space.Mapping) int { return cmp.Compare(m.Start, n.Start) })
}

// TestCodes: what a process has mapped since counts, and what is kept is bounded.
func TestCodes(t *testing.T) {
	spaces := space.New()
	var c codes
	for i := range uint64(200) {
		spaces.Map(1, elf("/lib/x", (i+1)<<20, (i+1)<<20+4096, i<<12), 1000)
		fits := c.of(1, spaces.Space(1).At(2000).Mappings).holding(i<<12, 2000)
		if len(fits.list) != 1 {
			t.Fatalf("%d mappings: %d fit", i+1, len(fits.list))
		}
	}
	ms := spaces.Space(1).At(2000).Mappings
	for range indexedWhen + 1 {
		c.of(1, ms)
	}
	if c.by[1].index == nil {
		t.Error("no index of mappings that stay")
	}
	for pid := range 2 * maxCodes / ms.Len() {
		c.of(pid, ms)
		if c.size > maxCodes {
			t.Fatalf("%d mappings are kept", c.size)
		}
	}
	x := newCodeIndex(ms)
	for i := range uint64(3 * maxPieces) {
		x.bounds = append(x.bounds, 1<<40+i)
		if x.at(1<<40 + i); len(x.pieces) > maxPieces || x.kept > maxFits {
			t.Fatalf("%d pieces are kept", len(x.pieces))
		}
	}
}

// BenchmarkManyMappings is what a frame with an identifier costs in a process with
// few and many mappings: of one file, each of another part, and of many files, all of
// the same part.
func BenchmarkManyMappings(b *testing.B) {
	for _, template := range []string{"parts", "files"} {
		for _, n := range []int{200, 20_000} {
			spaces := space.New()
			for i := range uint64(n) {
				m := elf("/lib/x", (i+1)<<20, (i+1)<<20+4096, i<<12)
				if template == "files" {
					m.Name, m.Inode, m.Offset = fmt.Sprint("/lib/", i), i, 0
				}
				spaces.Map(1, m, 1000)
			}
			j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
			b.Run(fmt.Sprintf("%s/%d", template, n), func(b *testing.B) {
				k := uint64(0)
				for b.Loop() {
					offset := k % 100 << 12
					if k++; template == "files" {
						offset = k % 100
					}
					j.Attribute(deferred(1, 5000, 6000, &filemap.File{Path: "/lib/x"}, number{offset, hash(1)}))
				}
			})
		}
	}
}

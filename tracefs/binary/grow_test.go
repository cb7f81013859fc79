package binary

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// mappedPlay are the pages of a capture in a mapped buffer: each CPU's reader has one
// sub-buffer, which grows while it is looked at, and which the writer has again once the
// reader has gone on.
type mappedPlay struct {
	*played
	readers []mappedReader
}

// mappedReader is the sub-buffer at a place in the list of pages, -1 for none yet; read is how
// many of its records the kernel takes as read.
type mappedReader struct {
	memory   []byte
	at, read int
}

func mapPlay(p *played) *mappedPlay {
	m := &mappedPlay{played: p}
	for range p.pages {
		m.readers = append(m.readers, mappedReader{memory: make([]byte, p.layout.Size), at: -1})
	}
	return m
}

// written returns how many records of a page have been written.
func (p *playedPage) written(now uint64) (n int) {
	for n < len(p.times) && p.times[n] <= now {
		n++
	}
	return n
}

// show brings what the reader sees up to date.
func (m *mappedPlay) show(i int) {
	r := &m.readers[i]
	if r.at < 0 {
		return
	}
	page := &m.pages[i][r.at]
	size := 0
	if n := page.written(m.now); n == len(page.times) {
		copy(r.memory, page.data)
		return
	} else if n > 0 {
		size = page.ends[n-1] - m.layout.Data
	}
	order := m.layout.Order()
	word := order.Uint32(page.data[m.layout.Commit:]) &^ (1<<30 - 1)
	copy(r.memory, page.data[:m.layout.Data+size])
	copy(r.memory[m.layout.Data+size:], page.data[m.layout.Data+int(order.Uint32(page.data[m.layout.Commit:])&(1<<30-1)):])
	order.PutUint32(r.memory[m.layout.Commit:], word|uint32(size))
}

// Next is ring_buffer_map_get_reader in kernel/trace/ring_buffer.c.
func (m *mappedPlay) Next(i int) ([]byte, bool, error) {
	r, list := &m.readers[i], m.pages[i]
	if r.at >= 0 {
		n := list[r.at].written(m.now)
		if r.read < n || n < len(list[r.at].times) {
			r.read = n
			m.show(i)
			return r.memory, false, nil
		}
	}
	if r.at+1 == len(list) || list[r.at+1].written(m.now) == 0 && len(list[r.at+1].times) > 0 {
		if r.at < 0 {
			return nil, false, nil
		}
		return r.memory, false, nil
	}
	r.at++
	r.read = list[r.at].written(m.now)
	for i := range r.memory { // by the writer
		r.memory[i] = 0xa5
	}
	m.show(i)
	return r.memory, true, nil
}

func (m *mappedPlay) Hold() bool {
	for i := range m.readers {
		m.show(i)
	}
	return m.played.Hold()
}

func (m *mappedPlay) Wait(d time.Duration) (bool, error) {
	next := uint64(never)
	for i, list := range m.pages {
		r := &m.readers[i]
		for at := max(r.at, 0); at < len(list); at++ {
			n := list[at].written(m.now)
			if at > r.at && (n > 0 || len(list[at].times) == 0) || at == r.at && n > r.read {
				return true, nil
			}
			if n < len(list[at].times) {
				next = min(next, list[at].times[n])
				break
			}
		}
	}
	if next == never {
		return true, nil
	}
	if d >= 0 && m.rand.IntN(4) == 0 && next > m.now {
		m.now += m.rand.Uint64N(next - m.now)
		return false, nil
	}
	m.now = next
	return true, nil
}

// reusing are rings that are read into one piece of memory for each CPU.
type reusing struct {
	*played
	memory map[int][]byte
}

func (r *reusing) Next(i int) ([]byte, bool, error) {
	if r.memory[i] == nil {
		r.memory[i] = make([]byte, r.layout.Size)
	}
	n, err := r.read(i, r.memory[i])
	return r.memory[i][:n], n > 0, err
}

// interrupted are growing rings of which records are copied out between any two uses.
type interrupted struct {
	*growing
	rand  *rand.Rand
	moved int
}

func (g *interrupted) Hold() bool {
	if g.rand.IntN(3) == 0 {
		for i := range g.cpus {
			if g.rand.IntN(2) == 0 && g.growing.Hold() {
				g.take(i)
				g.growing.Release()
			}
		}
	}
	return g.growing.Hold()
}

func (g *interrupted) Moved(i int) []byte {
	page := g.growing.Moved(i)
	if page != nil {
		g.moved++
	}
	return page
}

// TestGrow: what is held in memory gives the same as what is read at once, whenever it is
// copied, from mapped buffers and from others, and where there is little room.
func TestGrow(t *testing.T) {
	capturetest.SkipShort(t)
	moved := 0
	for _, capture := range rawCaptures(t) {
		t.Run(strings.TrimPrefix(capture, captures+"/"), func(t *testing.T) {
			dir, err := OpenDir(capturetest.Unpack(t, capture+"/raw.tar.zst"))
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			want := readAll(t, dir.Source(Options{Events: true}, nil))
			for seed := range uint64(2) {
				var rings Rings = mapPlay(play(t, dir, seed))
				if seed%2 == 1 {
					rings = &reusing{play(t, dir, seed), make(map[int][]byte)}
				}
				peak := int64(0)
				layout := dir.Kernel.Layout
				layout.Size = dir.subbuf()
				grown := newGrowing(rings, GrowOptions{Layout: layout, Most: 3 * chunkSize, Grown: func(n int64) { peak = n }})
				g := &interrupted{growing: grown, rand: rand.New(rand.NewPCG(seed, 1))}
				l := NewLive(dir.Kernel, g, LiveOptions{Options: Options{Events: true}, Pause: time.Millisecond, Pace: time.Millisecond})
				var text []byte
				var b tracefs.Batch
				for err = nil; err == nil; {
					err = l.Next(&b)
					text = append(text, b.Text...)
				}
				if (err == io.EOF) != (want.err == io.EOF) || !bytes.Equal(text, want.text) {
					t.Fatalf("seed %d: %d bytes, then %v, want %d and %v; %s", seed, len(text), err, len(want.text), want.err,
						firstDifference(string(text), string(want.text)))
				}
				if peak > 3*chunkSize || peak != grown.room.peak {
					t.Errorf("%d bytes of memory, %d by the room", peak, grown.room.peak)
				}
				for range 2 {
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				}
				if grown.room.open != nil || grown.room.spare != nil {
					t.Error("memory is left")
				}
				moved += g.moved
			}
		})
	}
	if moved < 100 {
		t.Errorf("%d sub-buffers were moved while they were read", moved)
	}
}

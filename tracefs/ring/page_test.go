package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/tracefs/format"
)

// record is what a test writes and wants to read again.
type record struct {
	time uint64
	data string
}

// writer makes a sub-buffer as the kernel does.
type writer struct {
	l    Layout
	buf  []byte
	last uint64
}

func newWriter(l Layout, start uint64) *writer {
	w := &writer{l: l, buf: make([]byte, l.Data), last: start}
	l.Order().PutUint64(w.buf[l.Timestamp:], start)
	return w
}

func (w *writer) word(v uint32) {
	w.buf = append(w.buf, 0, 0, 0, 0)
	w.l.Order().PutUint32(w.buf[len(w.buf)-4:], v)
}

func (w *writer) head(typ, delta uint32) {
	if w.l.BigEndian {
		w.word(typ<<27 | delta)
	} else {
		w.word(delta<<5 | typ)
	}
}

func (w *writer) add(r record, long, absolute bool) {
	delta := r.time - w.last
	switch {
	case absolute:
		w.head(typeTimeStamp, uint32(r.time&(1<<27-1)))
		w.word(uint32(r.time & stampMask >> 27))
		delta = 0
	case delta >= 1<<27:
		w.head(typeTimeExtend, uint32(delta&(1<<27-1)))
		w.word(uint32(delta >> 27))
		delta = 0
	}
	w.last = r.time
	if n := len(r.data) / 4; n <= 28 && n > 0 && !long {
		w.head(uint32(n), uint32(delta))
	} else {
		w.head(0, uint32(delta))
		w.word(uint32(len(r.data)) + 4)
	}
	w.buf = append(w.buf, r.data...)
}

// discard writes a record that was given up.
func (w *writer) discard(time uint64, size int) {
	w.head(typePadding, uint32(time-w.last))
	w.word(uint32(size) + 4)
	w.buf = append(w.buf, make([]byte, size)...)
	w.last = time
}

// page is the finished sub-buffer. Like the kernel it adds the flags as a
// negative int, so that the upper half of the word is all ones.
func (w *writer) page(missed, stored bool, lost uint64) []byte {
	size := len(w.buf) - w.l.Data
	commit := uint64(size)
	if missed {
		commit |= 0xffffffff80000000
	}
	if stored {
		commit |= missedStored
	}
	long := func(b []byte, v uint64) {
		if w.l.LongSize == 4 {
			w.l.Order().PutUint32(b, uint32(v))
		} else {
			w.l.Order().PutUint64(b, v)
		}
	}
	long(w.buf[w.l.Commit:], commit)
	if stored {
		w.buf = append(w.buf, make([]byte, w.l.LongSize)...)
		long(w.buf[len(w.buf)-w.l.LongSize:], lost)
	}
	return append(w.buf, make([]byte, max(0, w.l.Size-len(w.buf)))...)
}

func layouts() map[string]Layout {
	small := format.Page{Timestamp: 0, Commit: 8, LongSize: 4, Data: 12, Size: 4096}
	big := *format.DefaultPage()
	big.Size = 1 << 16
	return map[string]Layout{
		"64-bit little": {Page: *format.DefaultPage()},
		"64-bit big":    {Page: big, BigEndian: true},
		"32-bit little": {Page: small},
		"32-bit big":    {Page: small, BigEndian: true},
	}
}

func read(t *testing.T, l *Layout, data []byte) (got []record, p Page) {
	t.Helper()
	if err := p.Reset(l, data); err != nil {
		t.Fatal(err)
	}
	for p.Next() {
		got = append(got, record{p.Time, string(p.Record)})
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	return got, p
}

func TestPageRoundTrip(t *testing.T) {
	for name, l := range layouts() {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			for range 200 {
				now := rnd.Uint64() >> (6 + rnd.IntN(30))
				w := newWriter(l, now)
				var want []record
				for len(w.buf) < l.Size-300 && rnd.IntN(60) > 0 {
					now += rnd.Uint64() >> (20 + rnd.IntN(44))
					if rnd.IntN(10) == 0 {
						now = w.last + uint64(rnd.IntN(1000)) + 1
						w.discard(now, 4*rnd.IntN(20))
						continue
					}
					data := make([]byte, 4*(1+rnd.IntN(50)))
					for i := range data {
						data[i] = byte(rnd.Uint32())
					}
					r := record{now, string(data)}
					w.add(r, rnd.IntN(4) == 0, rnd.IntN(4) == 0)
					want = append(want, r)
				}
				lost := rnd.Uint64() >> 33
				got, p := read(t, &l, w.page(true, true, lost))
				if !slices.Equal(got, want) {
					t.Fatalf("read %d records, not the %d written", len(got), len(want))
				}
				if !p.Missed || p.Lost != lost {
					t.Fatalf("lost %v %d, want %d", p.Missed, p.Lost, lost)
				}
			}
		})
	}
}

func TestMissedEvents(t *testing.T) {
	for name, l := range layouts() {
		w := newWriter(l, 5)
		w.add(record{6, "abcd"}, false, false)
		if _, p := read(t, &l, w.page(true, false, 0)); !p.Missed || p.Lost != 0 {
			t.Errorf("%s: flag alone: missed %v, lost %d", name, p.Missed, p.Lost)
		}
		w = newWriter(l, 5)
		w.add(record{6, "abcd"}, false, false)
		if _, p := read(t, &l, w.page(false, false, 0)); p.Missed {
			t.Errorf("%s: missed without a flag", name)
		}
	}
}

// The word and the count that a 6.18 kernel wrote: 4060 bytes, 435 lost.
func TestMissedStoredAsSeen(t *testing.T) {
	l := Layout{Page: *format.DefaultPage()}
	data := make([]byte, l.Size)
	binary.LittleEndian.PutUint64(data[8:], 0xffffffffc0000fdc)
	binary.LittleEndian.PutUint64(data[16+4060:], 435)
	var p Page
	if err := p.Reset(&l, data); err != nil || !p.Missed || p.Lost != 435 {
		t.Errorf("missed %v, lost %d, error %v", p.Missed, p.Lost, err)
	}
}

func TestAbsolute(t *testing.T) {
	for _, x := range [...]struct{ stamp, last, want uint64 }{
		{100, 50, 100},
		{50, 100, 50},
		{7, 3<<stampBits | 5, 3<<stampBits | 7},
		{5, 3<<stampBits | 7, 3<<stampBits | 5},
		{7, 4<<stampBits - 5, 4<<stampBits | 7},
		{7, 1<<stampBits - 5, 1<<stampBits | 7},
	} {
		if got := absolute(x.stamp, x.last); got != x.want {
			t.Errorf("stamp %#x after %#x is %#x, want %#x", x.stamp, x.last, got, x.want)
		}
	}
}

func TestCorrupt(t *testing.T) {
	l := Layout{Page: *format.DefaultPage()}
	good := func() *writer {
		w := newWriter(l, 5)
		w.add(record{6, "abcdefgh"}, false, false)
		return w
	}
	for _, x := range [...]struct {
		name  string
		make  func() []byte
		found int
		at    int
	}{
		{"shorter than its head", func() []byte { return make([]byte, 15) }, 0, 15},
		{"commit beyond the end", func() []byte {
			data := good().page(false, false, 0)
			binary.LittleEndian.PutUint32(data[8:], 5000)
			return data
		}, 0, 8},
		{"cut off", func() []byte {
			w := good()
			w.add(record{7, "abcdefgh"}, false, false)
			return w.page(false, false, 0)[:16+12+8]
		}, 1, 8},
		{"a record longer than the rest", func() []byte {
			w := good()
			w.head(20, 0)
			return w.page(false, false, 0)
		}, 1, 28},
		{"a long record longer than the rest", func() []byte {
			w := good()
			w.head(0, 0)
			w.word(0xffffffff)
			return w.page(false, false, 0)
		}, 1, 32},
		{"a long record of no length", func() []byte {
			w := good()
			w.head(0, 0)
			w.word(0)
			return w.page(false, false, 0)
		}, 1, 32},
		{"half a time extend", func() []byte {
			w := good()
			w.head(typeTimeExtend, 0)
			return w.page(false, false, 0)
		}, 1, 28},
		{"a discarded record without end", func() []byte {
			w := good()
			w.head(typePadding, 1)
			w.word(4096)
			return w.page(false, false, 0)
		}, 1, 32},
	} {
		t.Run(x.name, func(t *testing.T) {
			var p Page
			found := 0
			p.Reset(&l, x.make())
			for p.Next() {
				found++
			}
			var e *Error
			if !errors.As(p.Err(), &e) || e.Byte != x.at || found != x.found {
				t.Errorf("%d records, error %v; want %d and byte %d", found, p.Err(), x.found, x.at)
			}
		})
	}
}

func FuzzPage(f *testing.F) {
	for _, l := range layouts() {
		w := newWriter(l, 5)
		w.add(record{6, "abcdefgh"}, false, false)
		w.add(record{1 << 40, "abcdefgh"}, true, true)
		w.discard(1<<40+1, 8)
		f.Add(w.page(true, true, 3), l.BigEndian, l.LongSize == 4)
	}
	f.Fuzz(func(t *testing.T, data []byte, big, small bool) {
		l := layouts()[map[bool]string{false: "64-bit ", true: "32-bit "}[small]+map[bool]string{false: "little", true: "big"}[big]]
		var p Page
		p.Reset(&l, data)
		total := 0
		for p.Next() {
			if len(p.Record)%4 != 0 {
				t.Fatalf("a record of %d bytes", len(p.Record))
			}
			total += len(p.Record) + 4
		}
		if total > len(data) {
			t.Fatalf("%d bytes of records in %d", total, len(data))
		}
	})
}

func BenchmarkPage(b *testing.B) {
	l := Layout{Page: *format.DefaultPage()}
	w := newWriter(l, 5)
	n := 0
	for ; len(w.buf) < 4000; n++ {
		w.add(record{w.last + 1000, fmt.Sprintf("%064d", n)}, false, false)
	}
	data := w.page(false, false, 0)
	b.ReportAllocs()
	for b.Loop() {
		var p Page
		p.Reset(&l, data)
		for p.Next() {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
}

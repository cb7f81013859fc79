package binary

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/ring"
	"ustack/tracefs/text"
)

// played are the pages of a capture, whose records come when the clock has reached
// them. The clock goes on by any steps while a reader waits.
type played struct {
	layout ring.Layout
	cpus   []int32
	pages  [][]playedPage
	now    uint64
	rand   *rand.Rand
	fail   error // of a Read
	closed bool
}

// playedPage is a page of which some records may have been taken.
type playedPage struct {
	data    []byte
	times   []uint64 // of the records left
	ends    []int    // where they end
	at      int      // where they begin
	before  uint64   // the time of the record before
	missing bool     // nothing has been taken yet
}

// last is when the page was written; 0 if it has no record.
func (p *playedPage) last() uint64 {
	if len(p.times) == 0 {
		return 0
	}
	return p.times[len(p.times)-1]
}

// play reads a capture.
func play(t testing.TB, d *Dir, seed uint64) *played {
	t.Helper()
	p := &played{layout: d.Kernel.Layout, rand: rand.New(rand.NewPCG(seed, 0)), now: 1<<64 - 1}
	p.layout.Size = d.subbuf()
	for i, f := range d.files {
		from := NewPages(io.NewSectionReader(f, 0, 1<<62), d.subbuf(), nil)
		var list []playedPage
		for {
			data, err := from.Page()
			if err != nil {
				break
			}
			list = append(list, p.page(data))
		}
		p.cpus, p.pages = append(p.cpus, d.cpus[i]), append(p.pages, list)
	}
	return p
}

func (p *played) page(data []byte) playedPage {
	out := playedPage{data: bytes.Clone(data), at: p.layout.Data, missing: true}
	var walk ring.Page
	_ = walk.Reset(&p.layout, out.data) // what is wrong with it is for the reader
	out.before = walk.Time
	for walk.Next() {
		start := cap(out.data) - cap(walk.Record)
		out.times, out.ends = append(out.times, walk.Time), append(out.ends, start+len(walk.Record))
		p.now = min(p.now, walk.Time)
	}
	return out
}

func (p *played) CPUs() []int32 { return p.cpus }
func (p *played) Now() uint64   { return p.now }
func (p *played) Close() error  { p.closed = true; return nil }
func (p *played) Hold() bool    { return !p.closed }
func (p *played) Release()      {}

func (p *played) Overrun(int) (uint64, bool) { return 0, false }

// Next gives a whole page, or the part of it that has been written
// (ring_buffer_read_page in kernel/trace/ring_buffer.c).
func (p *played) Next(i int) ([]byte, bool, error) {
	page := make([]byte, p.layout.Size)
	n, err := p.read(i, page)
	if n == 0 {
		return nil, false, err
	}
	return page, true, err
}

func (p *played) read(i int, page []byte) (int, error) {
	if p.fail != nil {
		return 0, p.fail
	}
	if len(p.pages[i]) == 0 {
		return 0, nil
	}
	next := &p.pages[i][0]
	n := 0
	for n < len(next.times) && next.times[n] <= p.now {
		n++
	}
	if n == len(next.times) {
		defer func() { p.pages[i] = p.pages[i][1:] }()
		if next.missing {
			return copy(page, next.data), nil
		}
	}
	if n == 0 {
		return 0, nil
	}
	clear(page)
	order := p.layout.Order()
	head := next.data[:p.layout.Data]
	if !next.missing {
		order.PutUint64(head[p.layout.Timestamp:], next.before)
	}
	copy(page, head)
	size := copy(page[p.layout.Data:], next.data[next.at:next.ends[n-1]])
	commit := uint32(size)
	if next.missing { // records before it, how many may not be said any more
		commit |= order.Uint32(next.data[p.layout.Commit:]) &^ (1<<30 - 1)
		copy(page[p.layout.Data+size:], next.data[next.ends[len(next.ends)-1]:])
	}
	order.PutUint32(page[p.layout.Commit:], commit)
	next.at, next.before, next.missing = next.ends[n-1], next.times[n-1], false
	next.times, next.ends = next.times[n:], next.ends[n:]
	return len(page), nil
}

// Ended: there is nothing left that has not been written.
func (p *played) Ended() bool {
	for _, list := range p.pages {
		if len(list) > 0 && list[len(list)-1].last() > p.now {
			return false
		}
	}
	return true
}

// Wait goes on to the next record.
func (p *played) Wait(d time.Duration) (bool, error) {
	next := uint64(1<<64 - 1)
	for _, list := range p.pages {
		switch {
		case len(list) == 0:
		case len(list[0].times) == 0:
			next = min(next, p.now)
		default:
			next = min(next, list[0].times[0])
		}
	}
	if d >= 0 && p.rand.IntN(4) == 0 && next > p.now {
		p.now += p.rand.Uint64N(next - p.now)
		return false, nil
	}
	p.now = max(p.now, next)
	return true, nil
}

func (p *played) Rest(d time.Duration) error {
	p.now += 1 + p.rand.Uint64N(2*uint64(d))
	return nil
}

// TestLiveOrder: records that come while they are read give what they give when
// all of them are there.
func TestLiveOrder(t *testing.T) {
	capturetest.SkipShort(t)
	seeds := uint64(5)
	if capturetest.Brief() {
		seeds = 1
	}
	for _, capture := range rawCaptures(t) {
		t.Run(strings.TrimPrefix(capture, captures+"/"), func(t *testing.T) {
			dir, err := OpenDir(capturetest.Unpack(t, capture+"/raw.tar.zst"))
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			want := readAll(t, dir.Source(Options{Events: true}, nil))
			for seed := range seeds {
				rings := play(t, dir, seed)
				l := NewLive(dir.Kernel, rings, LiveOptions{Options: Options{Events: true}, Pause: time.Millisecond, Pace: time.Millisecond})
				var got all
				var b tracefs.Batch
				pauses := 0
				for got.err == nil {
					got.err = l.Next(&b)
					if b.Paused {
						pauses++
					}
					if b.Pos != int64(len(text.Head)+len(got.text)) || len(b.Text) == 0 && !b.Paused && got.err == nil {
						t.Fatalf("a batch of %d bytes at byte %d, after %d bytes", len(b.Text), b.Pos, len(got.text))
					}
					got.text = append(got.text, b.Text...)
				}
				if (got.err == io.EOF) != (want.err == io.EOF) {
					t.Errorf("ends with %v, want %v", got.err, want.err)
				}
				if string(got.text) != string(want.text) {
					t.Fatalf("seed %d: %d bytes after %d pauses, want %d; %s", seed, len(got.text), pauses, len(want.text),
						firstDifference(string(got.text), string(want.text)))
				}
			}
		})
	}
}

// drifting are rings whose clock goes on when it is looked at.
type drifting struct{ *played }

func (d *drifting) Now() uint64 {
	d.now += d.rand.Uint64N(uint64(moment) / 4)
	return d.now
}

// TestLivePatience: a batch without anything says that all records of before Next was
// called have been delivered, and none is missing before one that is to come.
func TestLivePatience(t *testing.T) {
	capturetest.SkipShort(t)
	empty, losing := 0, 0
	for _, capture := range rawCaptures(t) {
		dir, err := OpenDir(capturetest.Unpack(t, capture+"/raw.tar.zst"))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		rings := play(t, dir, 9)
		patience := func() time.Duration { return time.Duration(rings.rand.IntN(2)) * time.Microsecond }
		l := NewLive(dir.Kernel, &drifting{rings}, LiveOptions{Options: Options{Events: true}, Pause: time.Millisecond, Pace: 1, Patience: patience})
		var b tracefs.Batch
		for err == nil {
			began := rings.now
			if err = l.Next(&b); err == nil && b.Empty() && !b.Paused {
				empty++
				for cpu, list := range rings.pages {
					if len(list) > 0 && len(list[0].times) > 0 && list[0].times[0] <= began {
						t.Fatalf("%s: a record of CPU %d has not been delivered", capture, cpu)
					}
				}
				if len(l.ready) > 0 || l.Losing() {
					t.Fatalf("%s: records are at hand", capture)
				}
			}
			if l.Losing() {
				losing++
			}
		}
	}
	if empty == 0 || losing == 0 {
		t.Errorf("%d empty batches, %d with a loss to come", empty, losing)
	}
}

// firstDifference shows the first line that is another one.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "line " + g[i] + "\nwant " + w[i]
		}
	}
	return "one of them ends"
}

// TestLiveFails: a failure to read is reported, and what came before it is not lost.
func TestLiveFails(t *testing.T) {
	dir, err := OpenDir(capturetest.Unpack(t, rawCaptures(t)[0]+"/raw.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	rings := play(t, dir, 1)
	l := NewLive(dir.Kernel, rings, LiveOptions{Pace: time.Millisecond})
	var b tracefs.Batch
	if err := l.Next(&b); err != nil || len(b.Text) == 0 {
		t.Fatalf("%d bytes, %v", len(b.Text), err)
	}
	rings.fail = errors.New("the disk is on fire")
	for err == nil {
		err = l.Next(&b)
	}
	if err != rings.fail {
		t.Errorf("error %v", err)
	}
	if err := l.Close(); err != nil || !rings.closed {
		t.Errorf("closed %v (%v)", rings.closed, err)
	}
}

// names are those of a table, for as long as it says.
type names map[int32][]struct {
	from uint64
	comm string
}

func (n names) Comm(tid int32, at uint64) (comm string, until uint64, ok bool) {
	until = at + 1000
	for _, e := range n[tid] {
		if e.from > at {
			return comm, min(until, e.from), ok
		}
		comm, ok = e.comm, true
	}
	return comm, until, ok
}

// TestNames: a task has the name of its time, also when that is asked for out of
// order, one that is not known the name that the kernel has.
func TestNames(t *testing.T) {
	dir, err := OpenDir(capturetest.Unpack(t, rawCaptures(t)[0]+"/raw.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	k := *dir.Kernel
	k.Comms = map[int32]string{9: "of the kernel"}
	k.Names = names{7: {{0, "first"}, {500, "a name that is too long"}}}
	p := newPrinter(&k)
	for _, test := range []struct {
		pid  int32
		at   uint64
		comm string
	}{{7, 10, "first"}, {7, 499, "first"}, {7, 500, "a name that is "}, {7, 480, "first"}, {7, 5000, "a name that is "},
		{9, 1, "of the kernel"}, {8, 1, "<...>"}, {0, 1, "<idle>"}, {-1, 1, "<XXX>"}} {
		rec := make([]byte, 8)
		dir.Kernel.Layout.Order().PutUint32(rec[4:], uint32(test.pid))
		text := string(p.head(nil, p.task(test.at, p.commonOf(rec)), 0, test.at, p.commonOf(rec)))
		if got, _, _ := strings.Cut(strings.TrimLeft(text, " "), "-"); test.pid >= 0 && got != test.comm {
			t.Errorf("%d at %d: %q, want %q", test.pid, test.at, text, test.comm)
		}
	}
}

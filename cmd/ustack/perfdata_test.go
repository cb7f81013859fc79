package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// perfDeferred has perf.data of Linux 7.3 with deferred call chains: one event, the entry
// into futex, which asks for them, and one that gets them.
const perfDeferred = "../../testdata/captures/perf-deferred"

// joinedStack is an event as it comes out: its time, thread, cookie and stack, or why it
// has none.
type joinedStack struct {
	time    tracefs.Time
	tid     int32
	cookie  uint64
	addrs   []uint64
	missing resolve.Missing
}

// joins collects the events of a replay. It implements render.Renderer.
type joins struct {
	list   []joinedStack
	totals resolve.Totals
}

func (j *joins) Flush() error                  { return nil }
func (j *joins) Close(t *resolve.Totals) error { j.totals = *t; return nil }

// Batch implements render.Renderer.
func (j *joins) Batch(h *resolve.Pending) error {
	for i := range h.Records {
		rec := &h.Records[i]
		if rec.Kind != tracefs.KindEvent {
			continue
		}
		t, _ := h.Exact(rec)
		a := &h.Attached[i]
		out := joinedStack{time: t, tid: rec.TID, cookie: a.Cookie, missing: a.Missing}
		if a.Stack != nil {
			for k := range a.Stack.Frames {
				out.addrs = append(out.addrs, a.Stack.Frames[k].Address(a.Stack.Text))
			}
		}
		j.list = append(j.list, out)
	}
	return nil
}

// replayJoins replays a perf.data with stacks at their events.
func replayJoins(t testing.TB, file string) *joins {
	t.Helper()
	f, err := defaultReplay([]string{file}, func(f *replayFlags) { f.stitch, f.Quiet = true, true })
	if err != nil {
		t.Fatal(err)
	}
	j := new(joins)
	if _, err := f.drive(nil, io.Discard, func(*saved.Trace, *resolve.Resolver, *symbolize.Symbols) render.Renderer { return j }); err != nil {
		t.Fatal(err)
	}
	return j
}

// deferredFile is one of these files, taken apart by a reader that knows nothing but their
// layout (README of the capture).
type deferredFile struct {
	head    []byte // up to the records
	tail    []byte
	records [][]byte
}

const (
	dataAtOffset   = 40 // in the header: where the records are, and their bytes
	typeDeferred   = 22
	cookieInSample = 64 // after the header, identifier, ip, ids, time, cpu, nr and the mark
)

func readDeferred(t testing.TB, name string) *deferredFile {
	t.Helper()
	data := capturetest.Read(t, filepath.Join(perfDeferred, name))
	at, size := binary.LittleEndian.Uint64(data[dataAtOffset:]), binary.LittleEndian.Uint64(data[dataAtOffset+8:])
	f := &deferredFile{head: data[:at], tail: data[at+size:]}
	for rest := data[at:][:size]; len(rest) > 0; {
		n := binary.LittleEndian.Uint16(rest[6:])
		f.records, rest = append(f.records, rest[:n]), rest[n:]
	}
	return f
}

// write writes the file with other records, as one that went through a pipe would be too
// different: the sections after the data move.
func (f *deferredFile) write(t testing.TB, name string, records [][]byte) {
	t.Helper()
	data := bytes.Join(records, nil)
	head := bytes.Clone(f.head)
	was := binary.LittleEndian.Uint64(head[dataAtOffset+8:])
	binary.LittleEndian.PutUint64(head[dataAtOffset+8:], uint64(len(data)))
	tail := bytes.Clone(f.tail) // one feature: where it is, and its bytes
	binary.LittleEndian.PutUint64(tail, binary.LittleEndian.Uint64(tail)-was+uint64(len(data)))
	if err := os.WriteFile(name, slices.Concat(head, data, tail), 0o600); err != nil {
		t.Fatal(err)
	}
}

// asked is a request for a stack.
type asked struct {
	tid    int32
	cookie uint64
}

// deferredTruth returns the requests of samples by their times, and the stacks that came.
func deferredTruth(records [][]byte) (requests map[tracefs.Time]asked, stacks map[asked][]uint64) {
	requests, stacks = make(map[tracefs.Time]asked), make(map[asked][]uint64)
	word := func(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	for _, r := range records {
		switch binary.LittleEndian.Uint32(r) {
		case unix.PERF_RECORD_SAMPLE:
			requests[tracefs.Time(word(r, 32))] = asked{int32(word(r, 24) >> 32), word(r, cookieInSample)}
		case typeDeferred:
			n := word(r, 16)
			var addrs []uint64
			for i := range n {
				addrs = append(addrs, word(r, int(24+8*i)))
			}
			stacks[asked{int32(word(r, int(24+8*n)) >> 32), word(r, 8)}] = addrs
		}
	}
	return requests, stacks
}

// check checks what was joined against the records of the file. It returns how many events
// have their stacks.
func (j *joins) check(records [][]byte) (joined int, err error) {
	requests, stacks := deferredTruth(records)
	if len(j.list) != len(requests) {
		return 0, fmt.Errorf("%d events of %d", len(j.list), len(requests))
	}
	for i := range j.list {
		e := &j.list[i]
		want, ok := requests[e.time]
		if !ok || want.tid != e.tid {
			return 0, fmt.Errorf("an event of thread %d at %d that is not in the file", e.tid, e.time)
		}
		stack, came := stacks[want]
		switch {
		case e.addrs == nil && e.missing == resolve.NotMissing:
			return 0, fmt.Errorf("thread %d at %d has neither a stack nor a reason", e.tid, e.time)
		case e.addrs != nil && !came:
			return 0, fmt.Errorf("thread %d at %d has a stack, which did not come", e.tid, e.time)
		case e.addrs != nil && !slices.Equal(e.addrs, stack):
			return 0, fmt.Errorf("thread %d at %d has the stack %x instead of %x", e.tid, e.time, e.addrs, stack)
		case e.addrs == nil && came:
			return 0, fmt.Errorf("thread %d at %d has no stack (%s), which came", e.tid, e.time, e.missing)
		case came:
			joined++
		}
	}
	return joined, nil
}

// TestPerfDeferred: each deferred call chain goes to the sample that asked for it, and each
// frame has a file.
func TestPerfDeferred(t *testing.T) {
	for name, want := range map[string]int{"a.data.zst": 805, "b.data.zst": 282} {
		j := replayJoins(t, filepath.Join(perfDeferred, name))
		joined, err := j.check(readDeferred(t, name).records)
		if err != nil || joined != want {
			t.Errorf("%s: %d joined instead of %d: %v", name, joined, want, err)
		}
		if late := j.totals.Trusts[filemap.Late]; j.totals.Frames == 0 || j.totals.Resolved() != late {
			t.Errorf("%s: %d frames, %d resolved, %d of them late", name, j.totals.Frames, j.totals.Resolved(), late)
		}
	}
}

var perfLossPatterns = flag.Int("perf-loss-patterns", 0, "loss patterns of TestPerfDeferredLost (10, with USTACK_LONG=1 50)")

// TestPerfDeferredLost: whichever records are lost, noted or not, no sample gets another
// one's stack, each whose stack is there has it, and each other one a reason.
func TestPerfDeferredLost(t *testing.T) {
	patterns := *perfLossPatterns
	if patterns == 0 {
		patterns = 50
		if capturetest.Brief() {
			patterns = 10
		}
	}
	files := []*deferredFile{readDeferred(t, "a.data.zst"), readDeferred(t, "b.data.zst")}
	name := filepath.Join(t.TempDir(), "perf.data")
	all, lost := 0, 0
	for seed := range uint64(patterns) {
		f := files[seed%2]
		kept, dropped := loseRecords(f.records, rand.New(rand.NewPCG(seed, 3)))
		f.write(t, name, kept)
		j := replayJoins(t, name)
		joined, err := j.check(kept)
		if err != nil {
			t.Fatalf("pattern %d: %v", seed, err)
		}
		all += joined
		lost += dropped
	}
	if all == 0 || lost == 0 {
		t.Errorf("%d joined, %d records lost", all, lost)
	}
	t.Logf("%d patterns, %d records lost, %d joined", patterns, lost, all)
}

// loseRecords loses single samples and stacks, and runs of records; half of the runs leave
// the record of a loss.
func loseRecords(records [][]byte, rng *rand.Rand) (kept [][]byte, dropped int) {
	rate := 2 + rng.IntN(100) // one in so many
	for i := 0; i < len(records); i++ {
		r := records[i]
		typ := binary.LittleEndian.Uint32(r)
		if typ != unix.PERF_RECORD_SAMPLE && typ != typeDeferred || rng.IntN(rate) > 0 {
			kept = append(kept, r)
			continue
		}
		run := 1
		if rng.IntN(4) == 0 {
			run = 1 + rng.IntN(30)
		}
		first := i
		for ; run > 1 && i+1 < len(records); run-- {
			if next := binary.LittleEndian.Uint32(records[i+1]); next != unix.PERF_RECORD_SAMPLE && next != typeDeferred {
				break
			}
			i++
		}
		dropped += i + 1 - first
		if typ == typeDeferred && rng.IntN(2) == 0 {
			kept = append(kept, lossAs(r, uint64(i+1-first)))
		}
	}
	return kept, dropped
}

// lossAs makes the record of a loss (PERF_RECORD_LOST: id, number, and the common end) with
// the end that a deferred chain has.
func lossAs(r []byte, n uint64) []byte {
	const trailer = 32
	out := binary.LittleEndian.AppendUint32(nil, unix.PERF_RECORD_LOST)
	out = binary.LittleEndian.AppendUint16(out, 0)
	out = binary.LittleEndian.AppendUint16(out, 8+16+trailer)
	out = binary.LittleEndian.AppendUint64(out, 1)
	out = binary.LittleEndian.AppendUint64(out, n)
	return append(out, r[len(r)-trailer:]...)
}

package binary

import (
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// spareWorld makes records as the kernel does: the stack of an event comes right after it on
// its CPU, but for what an interrupt records between the two.
type spareWorld struct {
	rand *rand.Rand
	s    spare
	// What a consumer has: threads with an entry and its stack, and no return since.
	stacks map[int32]bool
	left   map[role]int
	kept   int
}

func (w *spareWorld) head(tid int32) spareHead {
	return spareHead{tid: tid, preempt: uint8(w.rand.IntN(2))}
}

// record makes an event of a thread with its stack.
func (w *spareWorld) record(t *testing.T, cpu int32, head spareHead, depth int) {
	r := role(w.rand.IntN(int(roleStack)))
	if depth > 0 && r != roleOther {
		r = roleWakeup // interrupts make no calls
	}
	leave := w.s.event(cpu, head, r)
	had := w.stacks[head.tid]
	switch r {
	case roleReturn:
		if leave && !had {
			t.Fatal("the stack of a return is left out whose entry has none")
		}
		delete(w.stacks, head.tid)
	case roleEntry:
		delete(w.stacks, head.tid)
	}
	if leave && r != roleReturn && r != roleWakeup {
		t.Fatalf("the stack of an event of role %d is left out", r)
	}
	between := depth < 2 && w.rand.IntN(6) == 0
	if between {
		const softirq, hardirq = 0x10, 0x08 // the second one can interrupt the first
		flags := uint8(softirq)
		if depth > 0 {
			flags |= hardirq
		}
		w.record(t, cpu, spareHead{head.tid, flags, head.preempt}, depth+1)
	}
	if w.rand.IntN(8) == 0 {
		return // the kernel takes none, or it is lost
	}
	empty := w.rand.IntN(8) == 0
	switch without := w.s.stack(cpu, head, empty); {
	case without && !leave:
		t.Fatal("the stack of another event is left out")
	case without:
		w.left[r]++
	case !without && leave && !between:
		t.Fatal("a stack is there that was announced not to be")
	default:
		w.kept++
		if r == roleEntry && !empty && !between {
			w.stacks[head.tid] = true
		}
	}
}

// TestSpare: only stacks that are of no use are left out, whatever comes between an event
// and its stack, and none of a return after a loss.
func TestSpare(t *testing.T) {
	for seed := range uint64(200) {
		w := &spareWorld{rand: rand.New(rand.NewPCG(seed, 1)), stacks: make(map[int32]bool), left: make(map[role]int)}
		w.s = spare{on: true, last: make(map[int32]spareEvent), entered: make(map[int32]bool)}
		for range 400 {
			if w.rand.IntN(50) == 0 {
				w.s.lost()
				clear(w.stacks)
			}
			w.record(t, int32(w.rand.IntN(3)), w.head(1+int32(w.rand.IntN(4))), 0)
		}
		if w.left[roleReturn] == 0 || w.left[roleWakeup] == 0 || w.kept == 0 {
			t.Fatalf("seed %d: %v are left out, %d are there", seed, w.left, w.kept)
		}
	}
}

// TestSpareCaptures: without the stacks that are left out, a trace has the same records.
func TestSpareCaptures(t *testing.T) {
	left := 0
	for _, name := range []string{"static_raw", "tgid_raw", "lost_raw"} {
		dir, err := OpenDir(capturetest.Unpack(t, filepath.Join(captures, "stock", name, "raw.tar.zst")))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		all, some := stacksOf(t, dir, Options{Events: true, NoText: true}), stacksOf(t, dir, Options{Events: true, NoText: true, Spare: true})
		for len(some) > 0 {
			switch {
			case len(all) == 0:
				t.Fatalf("%s: records that there are not", name)
			case some[0].left:
				if all[0].frames == nil || some[0].event != all[0].event {
					t.Fatalf("%s: %+v has lost its stack, it was %+v", name, some[0], all[0])
				}
				left++
			case !reflect.DeepEqual(all[0], some[0]):
				t.Fatalf("%s: %+v, it was %+v", name, some[0], all[0])
			}
			all, some = all[1:], some[1:]
		}
		if len(all) > 0 {
			t.Fatalf("%s: %d records are missing", name, len(all))
		}
	}
	if left < 100 {
		t.Errorf("only %d stacks are left out", left)
	}
}

// spareRecord is an event with the stack that follows it on its CPU.
type spareRecord struct {
	event  spareID
	left   bool
	frames []uint64 // nil for none
}

type spareID struct {
	kind tracefs.Kind
	cpu  int32
	tid  int32
	time tracefs.Time
}

// stacksOf reads a trace.
func stacksOf(t *testing.T, dir *Dir, opt Options) (list []spareRecord) {
	t.Helper()
	last := make(map[int32]int) // by CPU: the event
	for s, err := dir.Source(opt, nil), error(nil); err == nil; {
		var b tracefs.Batch
		if err = s.Next(&b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		for i := range b.Records {
			r := &b.Records[i]
			if at, ok := last[r.CPU]; r.Kind == tracefs.KindStack && ok && list[at].event.tid == r.TID {
				frames, text := b.StackFrames(r)
				list[at].frames = []uint64{}
				for k := range frames {
					list[at].frames = append(list[at].frames, frames[k].Address(text))
				}
				delete(last, r.CPU)
				continue
			}
			exact, _ := b.Exact(r)
			last[r.CPU] = len(list)
			list = append(list, spareRecord{event: spareID{r.Kind, r.CPU, r.TID, exact}, left: r.Flags&tracefs.StackLeft != 0})
		}
	}
	return list
}

package report

import (
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/render/stackset"
)

// lowScreen is a screen with few rows.
type lowScreen struct{ strings.Builder }

func (*lowScreen) Rows() int { return 13 }

// TestBelief: a long answer leaves room for how complete its stacks are, and for what was
// lost.
func TestBelief(t *testing.T) {
	stack := new(futex.Stack)
	for range 8 {
		stack.Frames = append(stack.Frames, stackset.Frame{File: &filemap.File{Path: "/usr/bin/" + strings.Repeat("x", 60)}, Offset: 0x10})
	}
	lock := func(kind futex.Kind) *futex.Lock {
		l := &futex.Lock{Kind: kind, Rank: 1, Address: 0x1000, Slept: 5}
		l.Time = 5e9
		l.Waiters = []futex.ThreadTime{{TID: 1, Comm: "one", Count: 5, Time: 5e9}}
		l.WaitStacks = []futex.StackShare{{Stack: stack, Count: 5, Time: 5e9}}
		l.WakerTIDs, l.Wakers = l.Waiters, l.WaitStacks
		return l
	}
	r := &futex.Report{Calls: 20, End: 6e9, LockCount: 1, SignalCount: 1, Locks: []*futex.Lock{lock(futex.Mutex)}, Signals: []*futex.Lock{lock(futex.Condvar)},
		Reach: &resolve.Reach{Stacks: 10, Unwound: 10, Application: 9, Root: 8}}
	r.Loss.Refused = 7
	w := new(lowScreen)
	if err := Text(w, r, Options{Brief: true}); err != nil {
		t.Fatal(err)
	}
	text := w.String()
	for _, part := range []string{"Most: ", "\nStacks: of 10 waits, 90.0 %", "\nLoss: the kernel refused 7 records"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing", part)
		}
	}
	if n := strings.Count(text, "\n"); n > w.Rows()-1 || t.Failed() {
		t.Errorf("%d lines:\n%s", n, text)
	}
}

package resolve_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/text"
)

// written is a record as the kernel writes it, and what it would lose with it.
type written struct {
	cpu  int
	text string
}

// writer makes a trace whose stacks carry, as the address of their only frame,
// the number of the event that they belong to.
type writer struct {
	rand *rand.Rand
	list []written
	n    int
}

func (w *writer) record(cpu, tid int, flags, body string) {
	w.n++
	stamp := fmt.Sprintf("%d.%06d", w.n/1000000, w.n%1000000)
	w.list = append(w.list, written{cpu, fmt.Sprintf("%16s-%-7d [%03d] %s %12s: %s\n", "task", tid, cpu, flags, stamp, body)})
}

// event writes an event and its stack. An interrupt may come between them.
func (w *writer) event(cpu, tid int, context byte, depth int) {
	number := 0x1000 + len(w.list)
	flags := func() string { return "." + string(".N"[w.rand.IntN(2)]) + string(context) + ".." }
	w.record(cpu, tid, flags(), fmt.Sprintf("sys_futex(uaddr: 0x%x)", number))
	if depth == 0 && w.rand.IntN(4) == 0 {
		w.event(cpu, tid, 'h', 1)
	}
	w.record(cpu, tid, flags(), fmt.Sprintf("<user stack trace>\n =>  <%016x>", number))
}

// deferred writes an event with its cookie, and now and then the stack of the
// cookie, whose frame is the cookie's.
func (w *writer) deferred(cpu, tid int, cookies map[int]int) {
	if cookies[tid] == 0 {
		cookies[tid] = 0x1000 + len(w.list)
	}
	cookie := cookies[tid]
	w.record(cpu, tid, ".....", fmt.Sprintf("sys_futex(uaddr: 0x%x)", cookie))
	w.record(cpu, tid, ".....", fmt.Sprintf("cookie=%x", cookie))
	if w.rand.IntN(3) == 0 {
		w.record(cpu, tid, ".....", fmt.Sprintf("<user stack unwind>\ncookie=%x\n =>  <%016x> : 0x0", cookie, cookie))
		delete(cookies, tid)
	}
}

// lossy is the text with runs of the records of one CPU left out.
func (w *writer) lossy() string {
	var b strings.Builder
	var lost [2]int // so far, by CPU
	var left [2]int // to be lost
	for _, r := range w.list {
		if left[r.cpu] == 0 && lost[r.cpu] == 0 && w.rand.IntN(10) == 0 {
			left[r.cpu] = 1 + w.rand.IntN(7)
		}
		if left[r.cpu] > 0 {
			left[r.cpu]--
			lost[r.cpu]++
			continue
		}
		if lost[r.cpu] > 0 {
			fmt.Fprintf(&b, "CPU:%d [LOST %d EVENTS]\n", r.cpu, lost[r.cpu])
			lost[r.cpu] = 0
		}
		b.WriteString(r.text)
	}
	return b.String()
}

// checkPairs stitches a trace and counts the events with their own stack, and the
// events with the stack of another event.
func checkPairs(t *testing.T, trace string) (right, wrong int) {
	t.Helper()
	scan := text.NewScanner()
	scan.Events = true
	b := &tracefs.Batch{Text: []byte(trace)}
	if _, err := scan.Scan(b, text.MoreNever); err != nil {
		t.Fatal(err)
	}
	r := resolve.New(resolve.Options{Stitch: true, Sources: 1})
	r.Add(b)
	r.End()
	h := r.Next()
	for i := range h.Records {
		rec, stack := &h.Records[i], h.Attached[i].Stack
		if rec.Kind != tracefs.KindEvent || stack == nil {
			continue
		}
		var number uint64
		if _, err := fmt.Sscanf(string(h.Text[rec.Body:rec.End]), "sys_futex(uaddr: 0x%x)", &number); err != nil {
			t.Fatal(err)
		}
		if got := stack.Frames[0].Address(stack.Text); got == number {
			right++
		} else {
			wrong++
			t.Logf("the event of %#x has the stack of %#x", number, got)
		}
	}
	return right, wrong
}

// Where records are missing, no event gets the stack of another one.
func TestNoStackAcrossLoss(t *testing.T) {
	capturetest.SkipShort(t)
	for _, kind := range []string{"stock", "deferred"} {
		total := 0
		for seed := range uint64(200) {
			w := &writer{rand: rand.New(rand.NewPCG(seed, 1))}
			cookies := make(map[int]int)
			for range 200 {
				cpu := w.rand.IntN(2)
				tid := 70 + cpu*2 + w.rand.IntN(2)
				if kind == "stock" {
					w.event(cpu, tid, '.', 0)
				} else {
					w.deferred(cpu, tid, cookies)
				}
			}
			right, wrong := checkPairs(t, w.lossy())
			total += right
			if wrong > 0 {
				t.Fatalf("%s, seed %d: %d of %d events have the stack of another one", kind, seed, wrong, right+wrong)
			}
		}
		if total < 10000 {
			t.Errorf("%s: only %d events have their stack", kind, total)
		}
	}
}

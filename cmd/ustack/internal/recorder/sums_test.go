package recorder

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/render/futex"
	"ustack/render/record"
	"ustack/tracefs"
)

// TestSumsTriggers: by the sums of a futex, a wait is long or not; what was not counted is a
// trigger, what is left out to bound a report is none.
func TestSumsTriggers(t *testing.T) {
	id := futex.FutexID{Addr: 0x1000, TGID: 7}
	usual := futex.CallSum{Buckets: make([]uint64, 32)}
	usual.Buckets[20] = 1000 // of 0.5 to 1 ms
	for name, test := range map[string]struct {
		took tracefs.Time
		loss futex.SummedLoss
		why  string
	}{
		"usual":   {took: 10e6},
		"long":    {took: 11e6, why: "futex-wait>10 p99 (11ms p99 1.048576ms)"},
		"loss":    {loss: futex.SummedLoss{Missed: 1}, why: "loss"},
		"before":  {loss: futex.SummedLoss{Before: 1}},
		"bounded": {loss: futex.SummedLoss{Gone: 1, Apart: 2, Limited: 3}},
	} {
		opt := Options{Name: filepath.Join(t.TempDir(), "report.zst"), Proc: "/proc", Reporter: &live.Reporter{Out: new(bytes.Buffer)}}
		o, _, err := NewSums(opt, RingOptions{MaxFiles: 1, Triggers: []record.Trigger{{Times: 10}, {Loss: true}}}, time.Millisecond, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Begin(1e9); err != nil {
			t.Fatal(err)
		}
		defer o.End()
		state := &futex.SummedState{End: 2e9, Sums: map[futex.FutexID]*futex.CallSum{id: &usual}}
		if err := o.Sums(state); err != nil {
			t.Fatal(err)
		}
		if test.took > 0 {
			err = o.Wait(&futex.LongWait{Futex: id, From: 2e9, To: 2e9 + test.took})
		} else {
			state.Loss = test.loss
			err = o.Sums(state)
		}
		if err != nil || o.why != test.why {
			t.Errorf("%s: %q, %v, want %q", name, o.why, err, test.why)
		}
	}
	for _, trigger := range []record.Trigger{{Deadlock: true}, {Event: "a:b"}} {
		if _, _, err := NewSums(Options{}, RingOptions{Triggers: []record.Trigger{trigger}}, 0, time.Now); err == nil || !strings.Contains(err.Error(), "--source=bpf") {
			t.Errorf("%v: %v", trigger, err)
		}
	}
}

// TestSumsStacks: the head of a report says how its stacks were found.
func TestSumsStacks(t *testing.T) {
	for unwinds, want := range map[bool]string{true: "BPF, unwound from copies, else build IDs by the kernel", false: "BPF, build IDs by the kernel"} {
		o := &Sums{flight: flight{now: time.Now}, Unwinds: unwinds}
		if text := fmt.Sprint(o.fields(0)); !strings.Contains(text, "{stacks "+want+"}") {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

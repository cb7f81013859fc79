package resolve

import (
	"fmt"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/text"
)

// scanned is a batch of text that stands at a place of a trace.
func scanned(t *testing.T, pos int64, records string) *tracefs.Batch {
	t.Helper()
	b := &tracefs.Batch{Text: []byte(records), Pos: pos, Line: pos}
	if _, err := text.NewScanner().Scan(b, text.MoreNever); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestForgottenWaiter: a frame that waits for an identifier that the table forgets does not
// wait for longer than its batch is held. What uses the batch's memory next is left alone.
func TestForgottenWaiter(t *testing.T) {
	r := New(Options{Sources: 1, Identifiers: 2, Hold: Limits{Lines: 100}})
	const frame = " =>  <0000000000001251> : 0x%08x\n"
	var stacks strings.Builder
	stacks.WriteString("              ab-71      [000] .....     1.000001: <user stack unwind>\ncookie=1000001\n")
	for id := range 9 {
		fmt.Fprintf(&stacks, frame, 0xabcd0000+id)
	}
	r.Add(scanned(t, 0, stacks.String()))
	r.Add(scanned(t, 1000, "CPU:1 [LOST 3 EVENTS]\n"))
	for h := r.Next(); h != nil; h = r.Next() {
		r.Release(h)
	}
	r.Add(scanned(t, 2000, "CPU:0 [LOST 3 EVENTS]\n"))
	if n := len(r.names.waiting); n > 0 {
		t.Errorf("frames wait for %d identifiers and no batch is held", n)
	}
}

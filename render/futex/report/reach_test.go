//go:build !device

package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/render/futex"
)

// TestReachInHeads: text and page begin with how complete the stacks of waits are.
func TestReachInHeads(t *testing.T) {
	r := &futex.Report{NoReturns: true, Notes: []string{"the trace has no returns"},
		Reach: &resolve.Reach{Stacks: 4, Unwound: 4, Application: 3, Root: 2, End: "libjit\x1b.so"}}
	const want = `Stacks: of 4 waits, 75.0 % reach application code, 50.0 % the root of the thread; most of the others end in libjit\033.so.`
	var b bytes.Buffer
	if err := Text(&b, r, Options{}); err != nil || !strings.Contains(b.String(), want+"\n") {
		t.Errorf("%v, the text has no line %q:\n%s", err, want, &b)
	}
	if got := newAnswer(r).Summary; !slices.Contains(got, want) {
		t.Errorf("the page has no line %q: %q", want, got)
	}
	r.Released = &resolve.Reach{Stacks: 2, Application: 0, End: "libc.so.6"}
	if b.Reset(); Text(&b, r, Options{}) != nil || strings.Contains(b.String(), "Releases") {
		t.Errorf("no release was unwound:\n%s", &b)
	}
	r.Released.Unwound, r.Released.Application, r.Released.Root = 1, 1, 1
	const released = "Releases: of 2 stacks, 50.0 % reach application code, 50.0 % the root of the thread; 1 are the kernel's, by frame pointers; most of the others end in libc.so.6.\n"
	if b.Reset(); Text(&b, r, Options{}) != nil || !strings.Contains(b.String(), released) {
		t.Errorf("the text has no line %q:\n%s", released, &b)
	}
	r.Reach, r.Released = nil, nil
	if got := newAnswer(r).Summary; slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "Stacks") }) {
		t.Errorf("the page says how far stacks go that are not known: %q", got)
	}
}

//go:build !device

package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/render/brief"
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

// TestBriefReach: a screen has it in sentences that fit into a line each.
func TestBriefReach(t *testing.T) {
	r := &futex.Report{Reach: &resolve.Reach{Stacks: 4e6, Unwound: 3999999, Application: 3999999, Root: 3990000, End: "libc\x1b.so"},
		Released: &resolve.Reach{Stacks: 2, Application: 1, End: "libc.so.6"}}
	want := []string{"Stacks: of 4000000 waits, 100.0 % reach application code, 99.8 % the root.", `  Most of the others end in libc\033.so.`}
	if got := briefReach(r); !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	r.Reach, r.Released.Unwound, r.Released.Root = &resolve.Reach{Stacks: 8, Application: 2}, 2, 1
	want = []string{"Stacks: of 8 waits, 25.0 % reach application code (frame pointers).", "Releases: of 2 stacks, 50.0 % reach application code, 50.0 % the root."}
	if got := briefReach(r); !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	for _, line := range want {
		if len(line) > brief.Width {
			t.Errorf("%q is too long", line)
		}
	}
}

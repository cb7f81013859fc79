package sums

import (
	"fmt"

	"ustack/tracefs/bpffutex"
)

// walkCounts is what became of the waits with a copy of their stack.
type walkCounts struct {
	Whole uint64 // unwound
	// The others have the kernel's stack: the process has ended before it was looked at, has
	// changed what it has mapped, or cannot be looked at; the kernel found the first frame in
	// another file; nothing could be unwound.
	Ended, Changed, Unreadable, Unlike, Failed uint64
	Unrecognized                               uint64 // these have the first frame: see alike
	Short                                      uint64 // copies that were too short, of those that were unwound
	Unset                                      uint64 // times that more was to be copied and could not be
}

// refuse counts a wait for which what is known of its program does not count.
func (c *walkCounts) refuse(p *program) {
	switch p.unread {
	case hasEnded:
		c.Ended++
	case notReadable:
		c.Unreadable++
	default:
		c.Changed++
	}
}

// text says what became of the waits with copies of their stacks, "" if there were none.
func (c *walkCounts) text(l *bpffutex.Loss) string {
	if c.Whole+c.Ended+c.Changed+c.Unreadable+c.Unlike+c.Failed+c.Unrecognized+l.Copies+l.Pages == 0 {
		return ""
	}
	text := fmt.Sprintf("%d long waits unwound by tables", c.Whole)
	for _, part := range [...]struct {
		n    uint64
		what string
	}{
		{c.Short, "copies of stacks too short"}, {c.Ended, "with the kernel's stack, as the process had ended"},
		{c.Changed, "with the kernel's stack, as code was mapped meanwhile"}, {c.Unreadable, "with the kernel's stack, as what the process has mapped cannot be read"},
		{c.Unlike, "with the kernel's stack, whose first frame is in another file"},
		{c.Failed, "with the kernel's stack, as nothing was unwound"},
		{c.Unrecognized, "with the first frame only, as the kernel recognized a stack that was no longer sure"}, {l.Copies, "with the kernel's stack, as there was no room for a copy"},
		{l.Pages, "with the kernel's stack, as theirs was not in memory"}, {c.Unset, "times more could not be copied"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf("; %d %s", part.n, part.what)
		}
	}
	return text
}

//go:build !device

package live

import (
	"slices"

	"ustack/filemap/whole"
	"ustack/tracefs/instance"
)

// ticks returns the number of the tracepoint of ticks, 0 if they are not among the events.
func ticks(in *instance.Instance, events []instance.Event) uint64 {
	i := slices.IndexFunc(events, func(e instance.Event) bool { return e.System == "rcu" && e.Filter == instance.Tick })
	if i < 0 {
		return 0
	}
	id, err := in.Root().ID(events[i])
	if err != nil {
		return 0
	}
	return id
}

// reportTicks prints how many stacks of ticks were unwound.
func reportTicks(c *whole.Counts, say func(string, ...any)) {
	if c.TicksWhole > 0 {
		say("%d of %d stacks of ticks of the timer unwound, %d of them as far as the copy went", c.TicksWhole, c.Ticks, c.TicksShort)
	}
}

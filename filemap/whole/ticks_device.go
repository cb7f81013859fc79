//go:build device

package whole

import (
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// ticks are left out: the stacks of ticks stay as the kernel takes them.
type ticks struct{}

func newTicks() (k ticks) { return k }

func (s *Stage) ofTick(*perf.StackSample) bool { return false }

func (s *Stage) ticked(*tracefs.Batch, *Counts) {}

func (s *Source) withTicks(list []perf.Tracepoint) []perf.Tracepoint { return list }

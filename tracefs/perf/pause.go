package perf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Pause ends sampling until Resume. Threads pay nothing meanwhile.
// Stacks that come later (SamplerOptions.Deferred) still come.
func (s *Sampler) Pause() error {
	s.opt.Held = true // of a CPU that goes online meanwhile
	return s.each(unix.PERF_EVENT_IOC_DISABLE, "pausing")
}

// Resume resumes sampling after Pause, or begins with it if it was Held.
func (s *Sampler) Resume() error {
	s.opt.Held = false
	return s.each(unix.PERF_EVENT_IOC_ENABLE, "resuming")
}

// each does the same with all events, but for those that have stacks that come later.
func (s *Sampler) each(request uint, doing string) error {
	var all error
	for _, r := range s.rings {
		for _, fd := range append([]int{r.fd}, r.extra...) {
			if s.late[fd] {
				continue
			}
			if err := unix.IoctlSetInt(fd, request, 0); err != nil {
				all = errors.Join(all, fmt.Errorf("%s the events of CPU %d: %w", doing, r.CPU, err))
			}
		}
	}
	return all
}

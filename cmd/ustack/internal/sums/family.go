//go:build !device && (amd64 || arm64)

package sums

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/filemap/blocked"
	"ustack/tracefs/bpffutex"
)

// addFamily selects the processes that were named, and their children.
func (s *session) addFamily() error {
	if len(s.opt.PIDs) == 0 {
		return nil
	}
	family, err := s.files.reader.Family(s.opt.PIDs)
	if err != nil {
		return err
	}
	for _, pid := range family {
		if slices.ContainsFunc(s.alive, func(p process) bool { return p.pid == pid }) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		s.alive = append(s.alive, process{pid, fd})
		if err := s.source.Add(pid, bpffutex.Many); err != nil {
			return err
		}
		s.files.know(int32(pid))
	}
	if len(s.alive) == 0 {
		return fmt.Errorf("no process %d", s.opt.PIDs[0])
	}
	return nil
}

// lookAhead unwinds stacks of the processes before the programs are attached, see ahead.
func (s *session) lookAhead() {
	if !s.copied || len(s.alive) == 0 {
		return
	}
	a := s.files.walks.newAhead(blocked.NewReader(blocked.Options{Proc: s.opt.Proc}).Read)
	defer a.close()
	for _, p := range s.alive {
		threads, err := s.files.reader.Threads(p.pid)
		if err == nil { // else it has ended
			a.program(s.files.program(&bpffutex.Futex{TGID: int32(p.pid)}), p.pid, threads)
		}
	}
}

// process is a process with a file descriptor of it (man 2 pidfd_open).
type process struct{ pid, fd int }

// ended reports whether all of its threads have ended, whether or not its parent knows.
func (p process) ended() bool {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

//go:build !device && (amd64 || arm64)

package sums

import (
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs/bpffutex"
)

// room makes room in the kernel for futexes that come, once there is none: those of processes
// that have ended go into the sum of the futexes that are not kept apart. So a run of days shows
// the processes of its last hours, and counts all.
type room struct {
	looked time.Time
	apart  uint64 // calls of futexes that found no room, when there was a look
	count  int64  // futexes that have made room
}

// roomAgain is how soon room is made again: all sums are looked at for that.
const roomAgain = 10 * time.Second

// makeRoom makes room if some calls have found none lately.
func (s *session) makeRoom(now time.Time) error {
	r := &s.room
	if now.Sub(r.looked) < roomAgain {
		return nil
	}
	r.looked = now
	l, err := s.source.Loss()
	if err != nil || l.Apart == r.apart {
		return err
	}
	r.apart = l.Apart
	known := make(map[processID]bool)
	return s.source.Prune(func(f bpffutex.Futex) bool {
		id := processID{f.TGID, f.Born}
		ended, ok := known[id]
		if !ok {
			ended = s.files.ended(f.TGID, f.Born)
			known[id] = ended
		}
		return ended
	}, func(f bpffutex.Futex, sum *bpffutex.Sum) {
		c := callSum(sum)
		r.count++
		s.to.gone(s.to.id(&f), &c)
	})
}

// processID is a process: another one with its number began later.
type processID struct {
	tgid int32
	born uint64
}

// ended reports whether a process has surely ended, with all of its threads.
func (f *files) ended(pid int32, born uint64) bool {
	if unix.Kill(int(pid), 0) == unix.ESRCH {
		return true
	}
	_, err := f.reader.Stat(int(pid))
	return err == nil && !f.same(pid, born) // another one has the number
}

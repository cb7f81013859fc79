package sideband

import (
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// crowd is a history in which so many processes share the memory of the first one, with
// the PIDs from 1 on, at time 100.
func crowd(n int) (*History, *procmap.Mapping) {
	h := newHistory(space.New())
	code := &procmap.Mapping{Start: 0x1000, End: 0x3000, Name: "/lib", Inode: 7, Perms: procmap.Read | procmap.Exec}
	h.thread(1, 1, 10)
	h.mapped(1, code, 20)
	for pid := 2; pid <= n; pid++ {
		h.fork(1, pid, 100)
		h.shared(1, pid, 100)
	}
	return h, code
}

// TestCrowd: of more processes with one memory than are followed nothing is known, whatever
// they map or are found to have, until most have ended; it is for those that have their own.
func TestCrowd(t *testing.T) {
	for _, n := range []int{maxSharing, maxSharing + 1, maxSharing + 9} {
		h, code := crowd(n)
		has := func(what string, pid int, at tracefs.Time, want bool) {
			t.Helper()
			p, ok := h.Lookup(pid, 0x1010, at)
			if ok != want || ok && p.Late {
				t.Errorf("%d processes, %s: %d has %+v, %t", n, what, pid, p, ok)
			}
		}
		followed := n == maxSharing
		has("before", 1, 99, true)
		has("shared", 1, 101, followed)
		has("shared", n, 101, followed)
		h.unmapped(n, 0x1000, 0x3000, 110)
		has("unmapped", 1, 111, false)
		h.mapped(1, code, 120)
		has("mapped", 2, 121, followed)
		read := &procmap.Process{PID: 3, Mappings: []procmap.Mapping{*code}}
		h.read(read, nil, false, 130, 130)
		h.read(read, nil, true, 130, 130)
		has("read", 3, 131, followed)
		h.fork(3, 1000, 140) // with a copy
		h.exec(3, "other", 140)
		h.mapped(3, code, 141)
		h.mapped(1000, code, 141)
		has("executed", 3, 142, true)
		has("a copy", 1000, 142, true)
		for pid := 4; pid <= n; pid++ {
			h.exit(pid, pid, 150)
		}
		h.mapped(1, code, 160)
		has("few again", 1, 161, true)
		has("few again", 2, 161, true)
		has("then", 1, 145, followed)
		h.unmapped(2, 0x1000, 0x3000, 170)
		has("unmapped again", 1, 171, false)
	}
}

// TestCrowdRead: what was read after the crowd came is not believed, and neither is what
// is known of one whose memory was unknown.
func TestCrowdRead(t *testing.T) {
	h, code := crowd(maxSharing)
	read := &procmap.Process{PID: 1, Mappings: []procmap.Mapping{*code}}
	read.Mappings[0].End = 0x2000
	h.read(read, nil, false, 300, 0)
	h.thread(500, 500, 200)
	h.shared(1, 500, 200) // its fork was not seen
	h.read(&procmap.Process{PID: 500, Mappings: []procmap.Mapping{*code}}, nil, false, 400, 0)
	for _, pid := range []int{1, 2, 500} {
		for _, at := range []tracefs.Time{210, 310, 410} {
			if p, ok := h.Lookup(pid, 0x1010, at); ok {
				t.Errorf("%d has %+v at %d", pid, p, at)
			}
		}
	}
}

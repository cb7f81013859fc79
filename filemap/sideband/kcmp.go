package sideband

import (
	"encoding/binary"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
)

// Processes that share their memory since before they were followed are found by
// kcmp(2). Only processes with the same code at the same addresses are compared:
// forked servers, mostly, each with its own memory.

// kcmpVM is KCMP_VM (include/uapi/linux/kcmp.h).
const kcmpVM = 1

// compareMemory orders processes by their memory: 0 means the same one.
func compareMemory(a, b int) (order int, ok bool) {
	const equal, less, greater = 0, 1, 2
	v, _, e := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	switch {
	case e != 0:
		return 0, false // one has ended, or the kernel has no kcmp for us
	case v == equal, v == less:
		return -int(v), true
	}
	return 1, v == greater
}

// withMemory returns a thread of a process that has its memory: the first one, unless that has
// ended. One without memory is equal to any other such for kcmp(2).
func withMemory(proc string, pid int) int {
	dir := filepath.Join(proc, strconv.Itoa(pid), "task")
	if hasMemory(dir, pid) {
		return pid
	}
	threads, _ := os.ReadDir(dir) // the process may have ended
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil && hasMemory(dir, tid) {
			return tid
		}
	}
	return pid
}

// hasMemory reports whether a thread has memory, without which it executes no file.
func hasMemory(dir string, tid int) bool {
	_, err := os.Readlink(filepath.Join(dir, strconv.Itoa(tid), "exe"))
	return err == nil
}

// comparing makes the calls of kcmp(2), each of which waits for the processes as long as
// one of them is in the middle of an exec (kcmp_lock in kernel/kcmp.c): a server of a
// file that is closed then can take any time (see procmap).
type comparing struct{ calls *bounded.Calls }

// compareWait is how long a comparison may take.
const compareWait = 250 * time.Millisecond

// compare is compareMemory with a time limit. Of processes that could not be compared
// nothing is sure from then on.
func (b *Band) compare(p, q int) (order int, ok bool) {
	c := &b.comparing
	if c.calls == nil {
		c.calls = bounded.New(compareWait)
	}
	proc := "/proc"
	if r := b.completer.reader; r != nil {
		proc = r.Proc()
	}
	type answer struct {
		order int
		ok    bool
	}
	got := make(chan answer, 1)
	if c.calls.Do(func() {
		order, ok := compareMemory(withMemory(proc, p), withMemory(proc, q))
		got <- answer{order, ok}
	}) != nil {
		now := b.Now()
		b.History.compat(p, now)
		b.History.compat(q, now)
		return 0, false
	}
	a := <-got
	return a.order, a.ok
}

// checkSharers looks at processes again that have shared their memory: the record
// of an exec may be lost.
func (b *Band) checkSharers(r *procmap.Reader) {
	for _, g := range b.History.sharers.groups() {
		pids := slices.Clone(g.pids)
		first := make(map[int]int) // of processes that share their memory
		for i, pid := range pids {
			at := slices.IndexFunc(pids[:i], func(p int) bool { return sameMemory(b, p, pid) })
			first[pid] = pid
			if at >= 0 {
				first[pid] = first[pids[at]]
			}
		}
		if len(first) == 0 || !slices.ContainsFunc(pids, func(pid int) bool { return first[pid] != pids[0] }) {
			continue
		}
		now := b.Now()
		for _, pid := range pids {
			b.History.unshared(pid, now)
		}
		for _, pid := range pids {
			if first[pid] != pid {
				b.History.shared(first[pid], pid, now)
			}
		}
		for _, pid := range pids { // what one did may have been noted for the others
			_ = b.readAgain(r, pid, b.History.Gaps.from())
		}
	}
}

// sameMemory reports whether two processes share their memory. Where the kernel
// does not compare them, processes with different code do not.
func sameMemory(b *Band, a, c int) bool {
	if order, ok := b.compare(a, c); ok {
		return order == 0
	}
	now := space.Forever - 1
	v, w := b.History.Spaces.Space(a).At(now), b.History.Spaces.Space(c).At(now)
	seed := maphash.MakeSeed()
	return v != nil && w != nil && placesOf(v, seed) == placesOf(w, seed)
}

// findSharers finds processes that share their memory unknown to us, and reads
// them again.
func (b *Band) findSharers(r *procmap.Reader) {
	for _, list := range b.History.alike() {
		unite(b, r, nil, list)
	}
	var broken []int
	for _, g := range b.History.sharers.broken() { // of which no code is known
		broken = unite(b, r, broken, g.pids[:1])
	}
	if len(broken) == 0 {
		return
	}
	for _, pid := range b.History.Threads.processes() {
		_ = unite(b, r, slices.Clip(broken), []int{pid})
	}
}

// unite notes which processes of a list share the memory of one before them, or of one
// in sorted, which are in the order of kcmp(2). It returns them with the others.
func unite(b *Band, r *procmap.Reader, sorted, list []int) []int {
	for _, pid := range list {
		same, ok := 0, true
		at := sort.Search(len(sorted), func(i int) bool {
			order, known := b.compare(sorted[i], pid)
			if ok = ok && known; order == 0 && known {
				same = sorted[i]
			}
			return order >= 0
		})
		switch {
		case !ok:
		case same == 0:
			sorted = slices.Insert(sorted, at, pid)
		case !b.History.shares(same, pid):
			b.History.shared(same, pid, b.Now())
			for _, each := range []int{same, pid} {
				_ = b.readAgain(r, each, b.History.Gaps.from()) // what one did meanwhile, the other has
			}
		}
	}
	return sorted
}

// alike are processes that have the same code at the same addresses, two at least
// each.
func (h *History) alike() (lists [][]int) {
	seed, by := maphash.MakeSeed(), make(map[uint64][]int)
	h.Spaces.Snapshot().Each(func(sp *space.Space) bool {
		v := sp.At(space.Forever - 1)
		if v == nil || v.Mappings.Len() == 0 {
			return true
		}
		places := placesOf(v, seed)
		by[places] = append(by[places], sp.PID)
		return true
	})
	for _, list := range by {
		if len(list) > 1 {
			slices.Sort(list)
			lists = append(lists, list)
		}
	}
	return lists
}

// placesOf returns a hash of where a version has code.
func placesOf(v *space.Version, seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for m := range v.Mappings.All() {
		var place [24]byte
		binary.NativeEndian.PutUint64(place[:], m.Start)
		binary.NativeEndian.PutUint64(place[8:], m.End)
		binary.NativeEndian.PutUint64(place[16:], m.Offset)
		_, _ = h.Write(place[:])
	}
	return h.Sum64()
}

package space

import "sync"

// files interns files.
type files struct {
	mu    sync.Mutex
	known map[File]*File
	swept int // how many were left by the last sweep
}

// sweepAbove is how many more files than at the last sweep make a sweep worth
// its time.
const sweepAbove = 1 << 12

func (fs *files) intern(f File) *File {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if known, ok := fs.known[f]; ok {
		return known
	}
	fresh := &f
	fs.known[f] = fresh
	return fresh
}

func (fs *files) due() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.known) > 2*fs.swept+sweepAbove
}

// sweep forgets the files that no mapping of the snapshot has. One that is
// interned meanwhile may be forgotten too, and will then be another pointer:
// files do not go wrong by that, they are only kept twice.
func (fs *files) sweep(snap *Snapshot) {
	used := make(map[*File]bool)
	snap.Each(func(s *Space) bool {
		for i := range s.versions {
			for k := range s.versions[i].Mappings {
				used[s.versions[i].Mappings[k].File] = true
			}
		}
		return true
	})
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f, p := range fs.known {
		if !used[p] {
			delete(fs.known, f)
		}
	}
	fs.swept = len(fs.known)
}

package procmap

// The first thread of a process can end before the others (pthread_exit(3) in main). It
// stays as a zombie until they have ended, too, and has no memory any more: what
// /proc/PID shows of that is then nothing. They have it still, and so has /proc/TID.

// maxHeirs bounds the threads that are looked at for one that has not ended.
const maxHeirs = 1 << 6

// heir returns a thread of a process whose first thread has ended, by which its
// memory can be read. ok is false for all other processes.
func (r *Reader) heir(pid int) (tid int, ok bool) {
	if r.hasProgram(pid) {
		return 0, false
	}
	if s, err := r.stat(pid); err != nil || !s.Ended() {
		return 0, false
	}
	threads, err := r.Threads(pid)
	if err != nil {
		return 0, false
	}
	for _, tid := range threads[:min(len(threads), maxHeirs)] {
		if s, err := r.stat(tid); err == nil && s.hadMemory() {
			return tid, true
		}
	}
	return 0, false
}

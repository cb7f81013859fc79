package futex

import "ustack/tracefs"

// fileKey is where a futex is in a file.
type fileKey struct {
	id     string // the same for the file at all its paths
	offset uint64
}

// A process can map another file where it had one, and no event says so. So it is asked
// again now and then, for all its locks in so many calls a second at most.
const (
	askAgain  = tracefs.Time(10e6)
	askAtMost = 16 // in that time
)

// inFile asks which file a new lock is in, and returns the lock that is there already, nil
// if there is none.
func (lk *locks) inFile(l *lock, th *thread, t tracefs.Time) *lock {
	if !l.key.shared || lk.mappings == nil {
		return nil
	}
	file, path, ok := lk.fileAt(th, l.key, t)
	if l.local = ok && file == (fileKey{}); !ok || l.local {
		return nil
	}
	if same := lk.files[file]; same != nil {
		same = same.find()
		same.gone = same.gone && (same.key != l.key || same.proc.find() != l.proc)
		return same
	}
	l.file, l.path, lk.files[file] = file, path, l
	return nil
}

// fileAt asks which file a thread's process has at a key: the zero value is none.
func (lk *locks) fileAt(th *thread, key lockKey, t tracefs.Time) (f fileKey, path string, ok bool) {
	p := th.proc.find()
	if len(lk.asked) >= lk.most || lk.asked == nil {
		lk.asked = make(map[placing]tracefs.Time)
	}
	lk.asked[placing{p, key.addr}] = t
	tid := th.tid
	if p.tgid != tracefs.NoTID {
		tid = p.tgid
	}
	id, path, offset, ok := lk.mappings.SharedFile(tid, t, !lk.losses.Ticks, key.addr)
	if !ok || id == "" {
		return fileKey{}, "", ok
	}
	return fileKey{id, offset}, path, true
}

// remapped reports whether a process has mapped something else where a lock was: then
// another one is there.
func (lk *locks) remapped(l *lock, th *thread, key lockKey, t tracefs.Time) bool {
	if !key.shared || lk.mappings == nil || l.file == (fileKey{}) && !l.local {
		return false
	}
	p := th.proc.find()
	last, known := lk.asked[placing{p, key.addr}]
	if known && t-last < askAgain*max(tracefs.Time(len(lk.asked)), askAtMost)/askAtMost {
		return false
	}
	if now, _, ok := lk.fileAt(th, key, t); !ok || now == l.file {
		return false
	}
	l.leaves(p, key)
	for x := range lk.tasks.threads.all() {
		if x.proc.find() == p {
			x.unlocked(l)
		}
	}
	return true
}

// unlocked notes that it is unknown whether a thread has a lock.
func (th *thread) unlocked(l *lock) {
	th.dropLock(l)
	if th.got != nil && th.got.find() == l {
		th.got = nil
	}
	if l.owner == th.tid {
		l.owner = 0
	}
}

// leaves notes that a process has another lock where it had this one.
func (l *lock) leaves(p *process, key lockKey) {
	l.gone = l.gone || l.key == key && l.proc.find() == p.find()
}

// elsewhere reports whether two locks are known to be in two files, or places of one.
func (l *lock) elsewhere(k *lock) bool {
	return l.file != (fileKey{}) && k.file != (fileKey{}) && l.file != k.file
}

// contradicted reports whether a call has woken a thread that waited for a lock in another
// file, as far as is known. One of the two processes has mapped the other file meanwhile: both
// are asked again.
func (lk *locks) contradicted(w *wait, k *wake) bool {
	l, m := w.lock.find(), k.lock.find()
	if !l.elsewhere(m) {
		return false
	}
	for _, x := range [...]placing{{w.th.proc.find(), keyOf(&w.th.futex).addr}, {k.th.proc.find(), k.key.addr}} {
		if w.end-lk.asked[x] > askAgain/10 {
			delete(lk.asked, x)
		}
	}
	return true
}

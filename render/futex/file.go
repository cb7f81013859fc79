package futex

import (
	"slices"

	"ustack/tracefs"
)

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
	if owner := lk.tasks.threadOf(l.owner); owner != nil && owner.proc.find() == p {
		l.owner = 0
	}
	p.lefts.add(left{l, t})
	return true
}

// left is a lock in a file that a process had in its memory until a time: since then it is
// unknown whether its threads have it.
type left struct {
	lock *lock
	at   tracefs.Time
}

// lefts are the locks that a process has left last. Threads are not looked through for that:
// one that is asked for a lock compares.
type lefts struct {
	list []left       // the oldest first, each lock once
	all  tracefs.Time // until then it may have left any lock in a file
}

// maxLefts bounds the locks that a process is known to have left.
const maxLefts = 8

// add notes that a process has left a lock.
func (ls *lefts) add(x left) {
	x.lock = x.lock.find()
	ls.list = slices.DeleteFunc(ls.list, func(y left) bool {
		same := y.lock.find() == x.lock
		if same {
			x.at = max(x.at, y.at)
		}
		return same
	})
	if len(ls.list) >= maxLefts {
		ls.all = max(ls.all, ls.list[0].at)
		ls.list = slices.Delete(ls.list, 0, 1)
	}
	ls.list = append(ls.list, x)
}

// unite adds what another process has left that proved to be the same.
func (ls *lefts) unite(other *lefts) {
	ls.all = max(ls.all, other.all)
	for _, x := range other.list {
		ls.add(x)
	}
	*other = lefts{}
}

// forget forgets the locks that are gone.
func (ls *lefts) forget(gone func(*lock) bool) {
	ls.list = slices.DeleteFunc(ls.list, func(x left) bool { return gone(x.lock.find()) })
}

// left reports whether a thread's process has mapped another file where it had a lock, since
// a call by which the thread got it began.
func (th *thread) left(l *lock, began tracefs.Time) bool {
	ls := &th.proc.find().lefts
	if len(ls.list) == 0 && ls.all == 0 || !l.key.shared {
		return false
	}
	return began <= ls.all || slices.ContainsFunc(ls.list, func(x left) bool { return began <= x.at && x.lock.find() == l })
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

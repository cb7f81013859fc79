package sideband

import (
	"sort"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// Recorded makes history of the side band that a program has saved: the records of a
// perf.data, in order of time.
//
// perf reads /proc when it begins, and makes records of that; their time is 0, and what
// they say holds from the beginning on. After that the kernel reports each mapping, exec,
// fork and exit, but not munmap and mremap: all is Unsure, from the beginning on.
type Recorded struct {
	History *History
	// LostSince is when the first records were lost, space.Forever if none were: since
	// then a mapping may be missing.
	LostSince tracefs.Time
	// Changed, if it is set, is called with a process of which something is unknown from a time
	// on because of another one's record.
	Changed func(pid int, t tracefs.Time)

	kin            kin
	untrackedSince tracefs.Time // space.Forever if all were looked at
	losses         []loss       // in order
	names          filemap.Names
	ids            map[string]*listedFile
	generations    generations
}

// NewRecorded returns a history without any record. clock is the trace clock of their
// times.
func NewRecorded(spaces *space.Spaces, clock string) *Recorded {
	r := &Recorded{History: newHistory(spaces), LostSince: space.Forever, untrackedSince: space.Forever, kin: kin{most: maxLooked}}
	r.History.Clock = clock
	r.History.Unsure.begin(0, 0)
	return r
}

// listedFile is what perf's list of build IDs says of a name.
type listedFile struct {
	id elfid.ID
	// mapped is the first file that was mapped by the name, its inode 0 for none. several: there
	// were others, or several in the list, or the list has another one's ID.
	mapped  fileKey
	several bool
}

// fileKey tells files of one name apart. What perf has read of /proc has generation 0.
type fileKey struct {
	dev               procmap.Dev
	inode, generation uint64
}

// FileID notes the build ID of the file that had a name when the recording ended, before any
// record is added. See BuildID.
func (r *Recorded) FileID(name string, id []byte) {
	if r.ids == nil {
		r.ids = make(map[string]*listedFile)
	}
	if id, ok := elfid.New(id); ok && !id.IsZero() && len(r.ids) < maxFiles {
		if known := r.ids[name]; known != nil {
			known.several = known.several || known.id != id
			return
		}
		r.ids[name] = &listedFile{id: id}
	}
}

// BuildID returns the build ID of a mapped file, the zero ID if it is not known, once all records
// have been added: the one that came with its mapping, or the one that the file of this name had
// when the recording ended, if that is the only file that was mapped by this name, or had it.
// In containers, or where it was replaced, there are several.
func (r *Recorded) BuildID(f *space.File) elfid.ID {
	if listed := r.ids[f.Name]; f.BuildID.IsZero() && f.Kind.HasFile() && listed != nil && !listed.several {
		return listed.id
	}
	return f.BuildID
}

// meet notes that a file was mapped.
func (l *listedFile) meet(id elfid.ID, is fileKey) {
	was := &l.mapped
	switch {
	case !id.IsZero():
		l.several = l.several || id != l.id
	case is.inode == 0: // PERF_RECORD_MMAP has none
	case was.inode == 0:
		*was = is
	case was.dev != is.dev || was.inode != is.inode || was.generation != is.generation && was.generation != 0 && is.generation != 0:
		l.several = true
	default:
		was.generation = max(was.generation, is.generation)
	}
}

// Doubt forgets the build IDs of names of which other reports that the file that was mapped, with
// the number of an inode, is not the one of which the list has the ID. All records have been added.
func (r *Recorded) Doubt(other func(name string, inode uint64) bool) {
	for name, l := range r.ids {
		if !l.several && l.mapped.inode != 0 && other(name, l.mapped.inode) {
			l.several = true
		}
	}
}

// FileIDs returns how many build IDs were noted.
func (r *Recorded) FileIDs() int { return len(r.ids) }

// miscForkExec is PERF_RECORD_MISC_FORK_EXEC: perf has made the record of /proc, so the
// process does not have the mappings of its parent.
const miscForkExec = 1 << 13

// Add adds a record. It need not stay after that.
func (r *Recorded) Add(rec *perf.Record) {
	h := r.History
	switch rec.Type {
	case unix.PERF_RECORD_LOST:
		r.lose(rec.LostFrom, rec.Time)
		r.LostSince = min(r.LostSince, rec.LostFrom)
		return
	case unix.PERF_RECORD_LOST_SAMPLES:
		r.LostSince = min(r.LostSince, rec.Time)
		return
	}
	if rec.PID <= 0 || rec.TID <= 0 {
		return // of the kernel, or of another PID namespace
	}
	switch {
	case rec.Type == unix.PERF_RECORD_MMAP, rec.Type == unix.PERF_RECORD_MMAP2:
		r.mapped(rec)
	case rec.Exec():
		r.kin.leave(rec.PID)
		h.exec(rec.PID, r.names.Intern(rec.Name), rec.Time)
	case rec.Type == unix.PERF_RECORD_COMM && rec.PID == rec.TID:
		if rec.Time == 0 {
			h.seen(rec.PID, rec.TID, 0)
		}
		h.comm(rec.PID, r.names.Intern(rec.Name), rec.Time)
	case rec.Type == unix.PERF_RECORD_COMM && rec.Time == 0,
		rec.Type == unix.PERF_RECORD_FORK && (rec.Time == 0 || rec.Misc&miscForkExec != 0):
		if rec.Type == unix.PERF_RECORD_FORK && !rec.Thread() {
			r.forked(rec)
		}
		h.seen(rec.PID, rec.TID, rec.Time)
	case rec.Thread():
		h.thread(rec.PID, rec.TID, rec.Time)
	case rec.Type == unix.PERF_RECORD_FORK:
		r.forked(rec)
		h.fork(max(rec.ParentPID, 0), rec.PID, rec.Time)
	case rec.Type == unix.PERF_RECORD_EXIT:
		if h.exit(rec.PID, rec.TID, rec.Time) {
			r.kin.leave(rec.PID)
		}
	}
}

// forked notes that a process was made, or had been when perf began.
func (r *Recorded) forked(rec *perf.Record) {
	if !r.kin.forked(rec.ParentPID, rec.PID, rec.Time) {
		r.untracked(rec.Time)
	}
}

// mapped adds a mapping. A process gets a vDSO when it executes a program, and at no other
// time, but by arch_prctl(ARCH_MAP_VDSO_64 and its like), which is for CRIU: if it has another one
// already, the record of that exec was lost. As the new one can be that of 32-bit programs, which has
// other functions at the same offsets, it is none whose functions are known.
func (r *Recorded) mapped(rec *perf.Record) {
	m := mapping(rec, &r.names)
	h := r.History
	r.generations.note(&m, rec)
	if listed := r.ids[m.Name]; listed != nil {
		listed.meet(m.BuildID, fileKey{m.Dev, m.Inode, rec.InodeGeneration})
	}
	if m.Kind == procmap.VDSO && rec.Time > 0 {
		v := h.Spaces.Space(rec.PID).At(rec.Time)
		if v != nil && v.From < rec.Time && otherVDSO(v, m.Start) {
			h.exec(rec.PID, v.Comm, rec.Time)
			r.kin.leave(rec.PID)
			m.Kind = procmap.Special
		}
	}
	if rec.Time > 0 {
		r.over(rec.PID, &m, rec.Time)
	}
	_ = h.mapped(rec.PID, &m, rec.Time)
}

// otherVDSO reports whether a version has a vDSO elsewhere.
func otherVDSO(v *space.Version, start uint64) bool {
	for m := range v.Mappings.All() {
		if m.File.Kind == procmap.VDSO && m.Start != start {
			return true
		}
	}
	return false
}

// loss is a time in which any record may be missing.
type loss struct{ from, to tracefs.Time }

// lose notes a loss. Losses come in order of both times.
func (r *Recorded) lose(from, to tracefs.Time) {
	if n := len(r.losses); n > 0 && r.losses[n-1].from >= from {
		r.losses[n-1].to = max(r.losses[n-1].to, to)
		return
	}
	r.losses = append(r.losses, loss{from, to})
}

// Missed returns the end of the last loss that began until a time: a program that began before
// that may have been replaced by another one, unseen. ok is false if there is none.
func (r *Recorded) Missed(t tracefs.Time) (until tracefs.Time, ok bool) {
	if t >= r.untrackedSince {
		return space.Forever, true
	}
	i := sort.Search(len(r.losses), func(i int) bool { return r.losses[i].from > t })
	if i == 0 {
		return 0, false
	}
	return r.losses[i-1].to, true
}

// sides are the sizes of user space that processors have (TASK_SIZE, arch/*/include/asm).
var sides = [...]uint64{1 << 39, 1 << 42, 1 << 47, 1 << 48, 1 << 52, 1 << 56}

// FixedPlace reports whether an address can be where a program has memory that is at no random
// place: below 4 GiB, where programs are linked to that are not position independent, or near
// where the kernel puts the others without randomisation (setarch -R): below the end of user
// space, from a third of it on (TASK_UNMAPPED_BASE) and from two thirds on (ELF_ET_DYN_BASE).
// After a program was replaced unseen, the next one can have other code there. Where the kernel
// has few random bits (18 by default on arm64), random places are near these, and count as
// fixed.
func FixedPlace(addr uint64) bool {
	const linked, near = 1 << 32, 8 << 30
	if addr < linked {
		return true
	}
	for _, side := range sides {
		if addr < side && addr >= side-near {
			return true
		}
		for _, at := range [...]uint64{side / 3, side / 3 * 2} {
			if at &^= 1<<32 - 1; addr >= at && addr < at+near {
				return true
			}
		}
	}
	return false
}

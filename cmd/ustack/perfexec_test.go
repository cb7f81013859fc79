package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/perfdata/perfdatatest"
)

var perfExecWorlds = flag.Int("perf-exec-worlds", 0, "worlds of TestPerfLostExec (8)")

// execWorld makes a perf.data of programs that are executed all the time, all linked to the
// same address, while perf's rings have too little room. A ring of a CPU is full now and then;
// what does not fit is lost, and the next record is one that says so.
type execWorld struct {
	rng   *rand.Rand
	file  perfdatatest.File
	now   uint64
	rings [2]execRing
	room  int
	procs map[uint32]*execProcess
	truth map[string]string // what is at an address at a time, "PID TIME ADDR"
	next  uint64            // program
	// late are records of mappings that perf writes rounds after their time.
	late [][]byte
	lags bool
}

type execRing struct {
	records [][]byte
	lost    uint64
}

type execProcess struct{ exe, lib, at uint64 }

const (
	linkedAt  = 0x400000
	sampleAll = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_CALLCHAIN
	idAll     = 1 << 18
)

func newExecWorld(seed uint64) *execWorld {
	w := &execWorld{rng: rand.New(rand.NewPCG(seed, 5)), now: 1000, procs: make(map[uint32]*execProcess), truth: make(map[string]string)}
	w.room = 20 + w.rng.IntN(60)
	w.file.Attrs = []perfdatatest.Attr{{Type: unix.PERF_TYPE_SOFTWARE, SampleType: sampleAll, Flags: idAll, IDs: []uint64{1}}}
	return w
}

// put writes a record into the ring of a CPU.
func (w *execWorld) put(cpu int, typ uint32, misc uint16, pid uint32, sample bool, values ...any) {
	r := &w.rings[cpu]
	end := []any{pid, pid, w.now, uint32(cpu), uint32(0)}
	if len(r.records) >= w.room {
		r.lost++
		return
	}
	if r.lost > 0 {
		r.records = append(r.records, w.file.Record(unix.PERF_RECORD_LOST, 0, append([]any{uint64(1), r.lost}, end...)...))
		r.lost = 0
	}
	if !sample {
		values = append(values, end...)
	}
	r.records = append(r.records, w.file.Record(typ, misc, values...))
}

// exec executes a new program.
func (w *execWorld) exec(cpu int, pid uint32) {
	w.next++
	p := &execProcess{exe: w.next, lib: w.next, at: 0x7f0000000000 + w.rng.Uint64N(1<<16)<<20}
	w.procs[pid] = p
	w.put(cpu, unix.PERF_RECORD_COMM, unix.PERF_RECORD_MISC_COMM_EXEC, pid, false, pid, pid, perfdatatest.Name(fmt.Sprint("p", p.exe)))
	for _, m := range []struct {
		at   uint64
		name string
	}{{linkedAt, fmt.Sprint("/bin/p", p.exe)}, {p.at, fmt.Sprint("/lib/l", p.lib)}, {p.at + 1<<19, "[vdso]"}} {
		w.now++
		w.put(cpu, unix.PERF_RECORD_MMAP, 0, pid, false, pid, pid, m.at, uint64(0x1000), uint64(0), perfdatatest.Name(m.name))
	}
}

// reload has a process map another library in the place of one.
func (w *execWorld) reload(cpu int, pid uint32) {
	w.next++
	p := w.procs[pid]
	p.lib = w.next
	kept := len(w.rings[cpu].records)
	w.put(cpu, unix.PERF_RECORD_MMAP, 0, pid, false, pid, pid, p.at, uint64(0x1000), uint64(0), perfdatatest.Name(fmt.Sprint("/lib/l", p.lib)))
	if r := &w.rings[cpu]; w.lags && w.rng.IntN(2) == 0 {
		w.late, r.records = append(w.late, r.records[kept:]...), r.records[:kept]
	}
}

// sample takes a stack.
func (w *execWorld) sample(cpu int, pid uint32) {
	p := w.procs[pid]
	fixed, lib := linkedAt+w.rng.Uint64N(2), p.at+w.rng.Uint64N(2)
	const user = ^uint64(511)                             // PERF_CONTEXT_USER, -512
	chain := []uint64{user, fixed, lib}[:2+w.rng.IntN(2)] // the same ones again and again
	w.put(cpu, unix.PERF_RECORD_SAMPLE, 2, pid, true, fixed, pid, pid, w.now, uint32(cpu), uint32(0), uint64(len(chain)), chain)
	w.truth[fmt.Sprint(pid, w.now, fixed)] = fmt.Sprint("/bin/p", p.exe)
	w.truth[fmt.Sprint(pid, w.now, lib)] = fmt.Sprint("/lib/l", p.lib)
}

// drain has perf write the rings, one after the other, while the world goes on.
func (w *execWorld) drain() {
	for cpu := range w.rings {
		w.file.Records = append(w.file.Records, w.rings[cpu].records...)
		w.rings[cpu].records = nil
		w.step()
	}
	w.file.Add(perfdatatest.Round, 0)
	if w.rng.IntN(4) == 0 {
		w.file.Records, w.late = append(w.file.Records, w.late...), nil
	}
}

func (w *execWorld) step() {
	w.now += 1 + w.rng.Uint64N(5)
	pid, cpu := 10+w.rng.Uint32N(4), w.rng.IntN(len(w.rings))
	switch _, lives := w.procs[pid]; {
	case !lives || w.rng.IntN(60) == 0:
		w.exec(cpu, pid)
	case w.rng.IntN(60) == 0:
		w.reload(cpu, pid)
	default:
		w.sample(cpu, pid)
	}
}

// frameFiles collects the files of frames, by the same keys. It implements render.Renderer.
// Files that are only claimed may be wrong.
type frameFiles struct {
	named, claimed, unnamed int
	check                   func(key, path string)
}

func (f *frameFiles) Flush() error                { return nil }
func (f *frameFiles) Close(*resolve.Totals) error { return nil }

// Batch implements render.Renderer.
func (f *frameFiles) Batch(h *resolve.Pending) error {
	for i := range h.Records {
		rec, a := &h.Records[i], &h.Attached[i]
		if rec.Kind != tracefs.KindEvent || a.Stack == nil {
			continue
		}
		at, _ := h.Exact(rec)
		for k := range a.Stack.Frames {
			o := &a.Stack.Attributions[k]
			if o.File == nil {
				f.unnamed++
				continue
			}
			if o.Trust == filemap.Claimed {
				f.claimed++
				continue
			}
			f.named++
			f.check(fmt.Sprint(rec.TID, int64(at), a.Stack.Frames[k].Address(a.Stack.Text)), o.File.Path)
		}
	}
	return nil
}

// attributed replays the world, and compares the files of frames with the truth.
func (w *execWorld) attributed(t *testing.T, seed uint64) (files *frameFiles, lost uint64) {
	t.Helper()
	for cpu := range w.rings { // else nothing says that the last records were lost
		w.sample(cpu, 10)
	}
	w.drain()
	w.file.Records = append(w.file.Records, w.late...)
	name := filepath.Join(t.TempDir(), "perf.data")
	if err := os.WriteFile(name, w.file.Write(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := defaultReplay([]string{name}, func(f *replayFlags) { f.stitch, f.Quiet = true, true })
	if err != nil {
		t.Fatal(err)
	}
	files = &frameFiles{check: func(key, path string) {
		if want := w.truth[key]; path != want {
			t.Errorf("world %d: %s is %s, not %q", seed, key, path, want)
		}
	}}
	totals, err := f.drive(nil, io.Discard, func(*saved.Trace, *resolve.Resolver, *symbolize.Symbols) render.Renderer { return files })
	if err != nil {
		t.Fatal(err)
	}
	lost, _ = totals.LostRecords()
	return files, lost
}

// TestPerfSharedMemory: perf does not record that a child shares the memory of its parent, which has
// what the child maps over its code: the same stack as before has another file, or none.
func TestPerfSharedMemory(t *testing.T) {
	w := newExecWorld(1)
	w.room = 1 << 30
	const parent, child = 10, 20
	w.exec(0, parent)
	for range 20 {
		w.now++
		w.sample(0, parent)
	}
	w.now++
	w.put(0, unix.PERF_RECORD_FORK, 0, child, false, uint32(child), uint32(parent), uint32(child), uint32(parent), w.now)
	w.now++
	w.procs[child] = w.procs[parent]
	w.reload(0, child)
	for range 20 {
		w.now++
		w.sample(0, parent)
		w.sample(0, child)
	}
	w.drain()
	// The parent has the program, and the library until the child maps over it; the child has both.
	files, lost := w.attributed(t, 1)
	if files.unnamed == 0 || files.named <= 3*files.unnamed || lost > 0 {
		t.Errorf("%d frames have a file, %d a claimed one, %d none, %d records lost", files.named, files.claimed, files.unnamed, lost)
	}
}

// recordedBy notes perf's arguments.
func (w *execWorld) recordedBy(args ...string) {
	values := []any{uint32(len(args))}
	for _, arg := range args {
		values = append(values, uint32(len(arg)+1), arg+"\x00")
	}
	const commandLine = 11 // HEADER_CMDLINE
	w.file.Features = map[int][]byte{commandLine: w.file.Bytes(values...)}
}

// TestPerfReadLater: what perf has read of /proc after the first records is only claimed; what was
// mapped since is not, nor what perf has read before.
func TestPerfReadLater(t *testing.T) {
	for args, later := range map[string]bool{"perf record -a": false, "perf record -a --switch-output": true} {
		w := newExecWorld(1)
		w.room = 1 << 30
		w.recordedBy(strings.Fields(args)...)
		w.exec(0, 10)
		p := w.procs[10]
		read := p.lib
		if later {
			read++ // it has come to the place of the one that the samples are of
		}
		w.rings[0].records, w.next, w.now = nil, read, 0
		for at, name := range map[uint64]string{linkedAt: fmt.Sprint("/bin/p", p.exe), p.at: fmt.Sprint("/lib/l", read)} {
			w.put(0, unix.PERF_RECORD_MMAP, 0, 10, false, uint32(10), uint32(10), at, uint64(0x1000), uint64(0), perfdatatest.Name(name))
		}
		w.now = 1000
		for range 20 {
			w.now++
			w.sample(0, 10)
		}
		w.now++
		w.reload(0, 10)
		for range 20 {
			w.now++
			w.sample(0, 10)
		}
		w.drain()
		if files, _ := w.attributed(t, 1); files.named == 0 || files.claimed > 0 != later {
			t.Errorf("%s: %d frames have a file, %d a claimed one, %d none", args, files.named, files.claimed, files.unnamed)
		}
	}
}

// TestPerfPartly: where other threads, or other CPUs, are not recorded, what they map is not either: files
// are only claimed, also what is mapped after a loss, and where no file is known may be one.
func TestPerfPartly(t *testing.T) {
	for _, args := range [][]string{{"perf", "record", "-t", "10"}, {"perf", "record", "-C", "0"}} {
		for _, loss := range []bool{false, true} {
			w := newExecWorld(1)
			w.room = 1 << 30
			w.recordedBy(args...)
			w.exec(0, 10)
			w.sample(0, 10)
			if loss {
				w.rings[0].lost = 1
				w.now++
				w.reload(0, 10)
			}
			kept := len(w.rings[0].records)
			w.now++
			w.reload(0, 10)
			w.rings[0].records = w.rings[0].records[:kept] // by another thread, on another CPU
			for range 20 {
				w.now++
				w.sample(0, 10)
			}
			w.drain()
			if files, lost := w.attributed(t, 1); files.named > 0 || files.claimed == 0 || lost > 0 != loss {
				t.Errorf("%v, loss %v: %d frames have a file, %d a claimed one, %d none, %d records lost", args, loss, files.named, files.claimed, files.unnamed, lost)
			}
		}
	}
}

// TestPerfLate: a mapping whose record perf wrote after samples of later times had its place
// from its own time on, also for stacks that were seen before it.
func TestPerfLate(t *testing.T) {
	for seed := range uint64(8) {
		w := newExecWorld(seed)
		w.room, w.lags = 1<<30, true
		for pid := range uint32(4) {
			w.exec(0, 10+pid)
		}
		for range 300 {
			for range w.rng.IntN(100) {
				w.step()
			}
			w.drain()
		}
		files, lost := w.attributed(t, seed)
		if files.named == 0 || lost > 0 {
			t.Errorf("world %d: %d frames have a file, %d a claimed one, %d none, %d records lost", seed, files.named, files.claimed, files.unnamed, lost)
		}
		if t.Failed() {
			return
		}
	}
}

// TestPerfLostExec: a program whose exec was lost leaves no frame of the next one at the same
// address with its name, nor does a library whose place another one has taken, but for names
// that are only claimed; and where nothing was lost, all frames have their files.
func TestPerfLostExec(t *testing.T) {
	worlds := *perfExecWorlds
	if worlds == 0 {
		worlds = 8
	}
	named, claimed, unnamed, lost := 0, 0, 0, 0
	for seed := range uint64(worlds) {
		w := newExecWorld(seed)
		lossless := seed%4 == 0
		if lossless {
			w.room = 1 << 30
		}
		for range 150 {
			for range w.rng.IntN(5 * min(w.room, 80)) {
				w.step()
			}
			w.drain()
		}
		files, records := w.attributed(t, seed)
		if lossless != (records == 0) || lossless && files.unnamed+files.claimed > 0 {
			t.Errorf("world %d: %d records lost, %d frames have a file, %d a claimed one, %d none", seed, records, files.named, files.claimed, files.unnamed)
		}
		named, claimed, unnamed, lost = named+files.named, claimed+files.claimed, unnamed+files.unnamed, lost+int(records)
		if t.Failed() {
			return
		}
	}
	if named == 0 || claimed == 0 || unnamed == 0 {
		t.Errorf("%d frames have a file, %d a claimed one, %d have none", named, claimed, unnamed)
	}
	t.Logf("%d worlds: %d frames have a file, %d a claimed one, %d none, %d records lost", worlds, named, claimed, unnamed, lost)
}

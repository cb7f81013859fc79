package saved

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/anoncode"
	"ustack/filemap/elfid"
	"ustack/filemap/observed"
	"ustack/filemap/resolve"
	"ustack/filemap/sideband"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/filemap/timeline"
	"ustack/tracefs"
	"ustack/tracefs/input"
	"ustack/tracefs/sched"
)

// attributed is what --maps needs: the trace is read twice, first to gather
// what frames there are of each identifier, then to give them their files.
type attributed struct {
	attributor *observed.Mappings   // nil without --maps
	exact      *timeline.Attributor // of mappings that live has saved, nil for others
	own        bool                 // these are in the trace itself
	saved      *sideband.History    // of exact
	trace      *input.Trace         // that exact attributes
	// perfMaps are of --perf-map, nil for none.
	perfMaps *anoncode.Directory
	names    *anoncode.Saved // of the saved trace, nil for none
	// vdso is ours, if --symbols is on and the trace's is the same.
	vdso  *symbolize.Kernel
	files []string // the inputs, all of which can be read twice
	temp  []string
}

// attributor loads the dump of --maps.
func (opt *Options) attributor(stdin io.Reader) (*attributed, error) {
	w := &attributed{files: opt.Files}
	if err := w.openPerfMaps(opt); err != nil {
		return nil, err
	}
	if err := w.load(opt, stdin); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// openPerfMaps opens the directory of --perf-map.
func (w *attributed) openPerfMaps(opt *Options) (err error) {
	switch {
	case opt.PerfMap == "":
		return nil
	case !opt.Symbols:
		return errors.New("--perf-map needs --symbols")
	}
	w.perfMaps, err = anoncode.OpenDirectory(opt.PerfMap)
	return err
}

// named adds the names of code in no file to the attributions of inner, which may be nil.
func (w *attributed) named(inner resolve.Attributor) resolve.Attributor {
	if w.perfMaps == nil && w.vdso == nil && w.names == nil {
		return inner
	}
	opt := anoncode.Options{Inner: inner, Directory: w.perfMaps, Program: w.program, VDSO: w.vdso}
	if w.exact != nil {
		opt.Program, opt.Saved, opt.Foreign = anoncode.ProgramOf(w.exact), w.names, w.exact.Foreign
	}
	return anoncode.New(opt)
}

// openVDSO opens our vDSO if its build ID is the trace's.
func (w *attributed) openVDSO(id elfid.ID) {
	if id.IsZero() {
		return
	}
	if own, err := anoncode.OwnVDSO(); err == nil && own.ID() == id {
		w.vdso = own
	}
}

// program returns the process of a stack, by the dump or by the trace.
func (w *attributed) program(s *resolve.Query) (anoncode.Program, bool) {
	s.Identify()
	pid := s.TGID
	if w.attributor != nil {
		if known, ok := w.attributor.Process(s.TID); ok {
			pid = known
		}
	}
	if pid == tracefs.NoTID {
		pid = s.TID // whose number maps are called by, if it is a process's first one
	}
	return anoncode.Program{PID: int(pid)}, pid > 0
}

// load loads what --maps has.
func (w *attributed) load(opt *Options, stdin io.Reader) error {
	if opt.Maps == "" {
		return nil
	}
	if found, err := w.loadHistory(opt.Maps); found || err != nil {
		if opt.Symbols && err == nil {
			w.openVDSO(w.saved.VDSO)
			err = w.loadNames(opt.Maps)
		}
		if err == nil && opt.Sysroot != "" && !opt.Symbols {
			err = errors.New("--sysroot has no use with a trace that live has saved")
		}
		return err
	}
	dump, err := observed.Load(opt.Maps)
	if err != nil {
		return err
	}
	if w.attributor, err = observed.New(dump, opt.Sysroot); err != nil {
		return err
	}
	if opt.Symbols {
		w.openVDSO(dump.VDSO())
	}
	w.files = nil
	for _, name := range opt.Files {
		if name, err = w.spool(name, stdin); err != nil {
			return err
		}
		w.files = append(w.files, name)
	}
	return nil
}

// replayedVersions is how often a process may change what it has mapped. Live
// keeps less, but of the last seconds only.
const replayedVersions = 1 << 17

// loadHistory loads the address spaces that live --save has saved, if the file is
// that.
func (w *attributed) loadHistory(name string) (found bool, err error) {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return false, nil // observed.Load reports it
	}
	f, err := input.Open(name, nil)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if head, _ := r.Peek(len(sideband.LogMark)); string(head) != sideband.LogMark {
		return false, nil
	}
	h, err := sideband.Load(space.NewOf(replayedVersions), r)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	w.useHistory(h)
	return true, nil
}

// useHistory has stacks attributed by a history.
func (w *attributed) useHistory(h *sideband.History) {
	w.saved = h
	w.exact = timeline.New(timeline.Options{
		Spaces: h.Spaces, Threads: h.Threads, Doubtful: h.Gaps.Around, Gap: h.Gaps.Between,
		Stacks: h.Stacks, Unsure: w.unsure, Unseen: w.unseen, Lost: h.Unsure.Lost, Missing: h.Unsure.Missing, Foreign: w.foreign, Stamp: timeline.TextStamp(),
	})
}

// unsure reports whether changes of memory may have gone unseen at a time, and unseen
// between two. Of times after the end of a history nothing is sure: it was cut, or is of
// another boot.
func (w *attributed) unsure(t tracefs.Time) bool {
	return w.beyond(t) || w.saved.Unsure.Doubtful(t)
}

func (w *attributed) unseen(from, to tracefs.Time) bool {
	return w.beyond(to) || w.saved.Unsure.Between(from, to)
}

func (w *attributed) beyond(t tracefs.Time) bool { return t > w.saved.Until }

// foreign reports whether nothing shows that the saved address spaces are of the trace:
// only an identifier that both have does. A clock that both have is no proof: after each
// boot it begins anew, and processes have the same numbers again. A history that a former
// version has saved has no identifier; it is believed (see note), unless the trace has one,
// or is none that live has saved: then it is of another history.
func (w *attributed) foreign() bool {
	if w.own {
		return false
	}
	id := w.trace.SavedID()
	return id != w.saved.Trace || id == "" && w.trace.Clock() != ""
}

// attributed has exact attribute a trace, if it has the right clock.
func (w *attributed) attributed(trace *input.Trace) error {
	if w.trace = trace; w.exact == nil {
		return nil
	}
	if clock := trace.Clock(); clock != "" && clock != w.saved.Clock {
		return fmt.Errorf("the trace's clock is %s, that of the mappings %s: record it with the clock %s", clock, w.saved.Clock, w.saved.Clock)
	}
	return nil
}

// note returns a remark for when all is read, "" for none.
func (w *attributed) note() string {
	switch {
	case w.exact == nil:
		return ""
	case w.foreign() && w.trace.Clock() != "":
		return "this trace has the clock of these mappings, but was not saved with them, and may be of another boot: all files are late"
	case w.foreign():
		return "this trace was not saved with these mappings, and may have another clock: all files are late"
	case w.trace.Joined():
		return "another trace begins in this one, and may be of another boot: from there on all files are late; replay each by itself"
	case w.saved.Trace == "" && !w.own:
		return "these mappings do not name their trace, as former versions of ustack saved them: that it is this one is not proven"
	}
	return ""
}

// spool copies an input that can be read only once to a temporary file.
func (w *attributed) spool(name string, stdin io.Reader) (string, error) {
	r := stdin
	if name != "-" {
		info, err := os.Stat(name)
		if err != nil || info.Mode().IsRegular() || info.IsDir() {
			return name, err
		}
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		r = f
	}
	temp, err := os.CreateTemp("", "ustack-replay-*")
	if err != nil {
		return "", fmt.Errorf("keeping the input, which is read twice: %w", err)
	}
	w.temp = append(w.temp, temp.Name())
	_, err = io.Copy(temp, r)
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", fmt.Errorf("keeping the input, which is read twice: %w", err)
	}
	return temp.Name(), nil
}

func (w *attributed) close() {
	for _, name := range w.temp {
		_ = os.Remove(name)
	}
	if w.perfMaps != nil {
		_ = w.perfMaps.Close()
	}
}

// gather reads the trace for the first time.
func (w *attributed) gather(t *Trace, opt resolve.Options) error {
	again := t.Again()
	if again == nil {
		return errors.New("--maps reads the trace twice, and this input can be read only once")
	}
	w.attributor.Clock(t.Clock())
	opt.Stitch = false
	for known := false; !known; known = w.attributor.Solve() {
		reading, err := again(input.Options{NoTemplates: true, Events: w.attributor.LooksAtCode() || w.attributor.Watches()})
		if err != nil {
			return err
		}
		step := t.options.reading("looking for mappings in", reading)
		// An error ends the reading; the last one meets it too, and reports it.
		_, _ = pump.Run(reading.Start(), resolve.New(opt), names{attributor: w.attributor}, func() {})
		step.End()
	}
	return nil
}

// discard renders nothing.
type discard struct{}

func (discard) Batch(*resolve.Pending) error { return nil }
func (discard) Flush() error                 { return nil }
func (discard) Close(*resolve.Totals) error  { return nil }

// names renders nothing: it passes the names of threads to the Attributor.
type names struct {
	discard
	attributor *observed.Mappings
}

// Batch implements render.Renderer.
func (n names) Batch(h *resolve.Pending) error {
	if !n.attributor.Watches() {
		return nil
	}
	for i := range h.Records {
		rec := &h.Records[i]
		if rec.Kind == tracefs.KindEvent && rec.Flags&tracefs.NoText == 0 && rec.Body > rec.Off && h.Timed(rec) {
			n.event(h, rec)
		}
	}
	n.attributor.Read()
	return nil
}

// event passes what an event says of threads.
func (n names) event(h *resolve.Pending, rec *tracefs.Record) {
	t := h.Time(rec)
	n.attributor.Lives(rec.TID, t)
	var e sched.Event
	if !sched.Parse(h.Text[rec.Body:rec.End], &e) || e.Kind != sched.Switch {
		return
	}
	n.attributor.Called(e.TID, h.Plain(e.Comm), t)
	comm := e.PrevComm()
	if comm == nil {
		return
	}
	n.attributor.Called(rec.TID, h.Plain(comm), t)
	if e.State == 'X' || e.State == 'Z' {
		n.attributor.Ended(rec.TID, h.Plain(comm), t)
	}
}

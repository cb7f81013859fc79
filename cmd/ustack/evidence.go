package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/filemap/evidence"
	"ustack/filemap/resolve"
	"ustack/filemap/sideband"
	"ustack/filemap/space"
	"ustack/filemap/timeline"
	"ustack/tracefs/input"
)

// withEvidence is what --maps needs: the trace is read twice, first to gather
// what frames there are of each identifier, then to give them their files.
type withEvidence struct {
	judge *evidence.Evidence // nil without --maps
	exact resolve.Evidence   // of mappings that live has saved, nil for others
	files []string           // the inputs, all of which can be read twice
	temp  []string
}

// evidence loads the dump of --maps.
func (f *traceFlags) evidence(stdin io.Reader) (*withEvidence, error) {
	w := &withEvidence{files: f.files}
	if f.maps == "" {
		if f.sysroot != "" && !f.symbols.on {
			return nil, errors.New("--sysroot needs --maps or --symbols")
		}
		return w, nil
	}
	if exact, err := loadHistory(f.maps); exact != nil || err != nil {
		if err == nil && f.sysroot != "" && !f.symbols.on {
			err = errors.New("--sysroot is of no use with what live has saved")
		}
		w.exact = exact
		return w, err
	}
	dump, err := evidence.Load(f.maps)
	if err != nil {
		return nil, err
	}
	if w.judge, err = evidence.New(dump, f.sysroot); err != nil {
		return nil, err
	}
	w.files = nil
	for _, name := range f.files {
		if name, err = w.spool(name, stdin); err != nil {
			w.close()
			return nil, err
		}
		w.files = append(w.files, name)
	}
	return w, nil
}

// replayedVersions is how often a process may change what it has mapped. Live
// keeps less, but of the last seconds only.
const replayedVersions = 1 << 17

// loadHistory loads the address spaces that live --save has saved; nil if the
// file is something else.
func loadHistory(name string) (resolve.Evidence, error) {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return nil, nil // evidence.Load tells
	}
	f, err := input.Open(name, nil)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if head, _ := r.Peek(len(sideband.LogHead)); string(head) != sideband.LogHead {
		return nil, nil
	}
	spaces := space.NewOf(replayedVersions)
	h, err := sideband.Load(spaces, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return timeline.New(timeline.Options{
		Spaces: spaces, Threads: h.Threads, Doubtful: h.Gaps.Around, Stamp: timeline.TextStamp(),
	}), nil
}

// spool copies an input that can be read only once to a temporary file.
func (w *withEvidence) spool(name string, stdin io.Reader) (string, error) {
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

func (w *withEvidence) close() {
	for _, name := range w.temp {
		_ = os.Remove(name)
	}
}

// gather reads the trace for the first time.
func (w *withEvidence) gather(trace *input.Trace, opt resolve.Options) error {
	again := trace.Again()
	if again == nil {
		return errors.New("--maps reads the trace twice, and this input can be read only once")
	}
	first, err := again(input.Options{NoShapes: true, Events: w.judge.LooksAtCode()})
	if err != nil {
		return err
	}
	opt.Stitch = false
	// An error ends the first reading; the second one meets it too, and tells.
	_, _ = pump(first.Start(), resolve.New(opt), discard{}, func() {})
	w.judge.Solve()
	return nil
}

// discard renders nothing.
type discard struct{}

func (discard) Batch(*resolve.Held) error   { return nil }
func (discard) Flush() error                { return nil }
func (discard) Close(*resolve.Totals) error { return nil }

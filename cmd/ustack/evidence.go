package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/filemap/evidence"
	"ustack/filemap/resolve"
	"ustack/tracefs/input"
)

// withEvidence is what --maps needs: the trace is read twice, first to gather
// what frames there are of each identifier, then to give them their files.
type withEvidence struct {
	judge *evidence.Evidence // nil without --maps
	files []string           // the inputs, all of which can be read twice
	temp  []string
}

// evidence loads the dump of --maps.
func (f *replayFlags) evidence(stdin io.Reader) (*withEvidence, error) {
	w := &withEvidence{files: f.files}
	if f.maps == "" {
		if f.sysroot != "" {
			return nil, errors.New("--sysroot needs --maps")
		}
		return w, nil
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

// spool copies an input that can be read only once to a temporary file.
func (w *withEvidence) spool(name string, stdin io.Reader) (string, error) {
	r := stdin
	if name != "-" {
		info, err := os.Stat(name)
		if err != nil || info.Mode().IsRegular() {
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
	first, err := again(input.Options{NoShapes: true})
	if err != nil {
		return err
	}
	opt.Stitch = false
	// An error ends the first reading; the second one meets it too, and tells.
	_, _ = pump(first, resolve.New(opt), discard{}, nil)
	w.judge.Solve()
	return nil
}

// discard renders nothing.
type discard struct{}

func (discard) Batch(*resolve.Held) error   { return nil }
func (discard) Flush() error                { return nil }
func (discard) Close(*resolve.Totals) error { return nil }

package resolve

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/input"
)

// addEach is Add, but that invariants are checked after each record.
func (r *Resolver) addEach(b *tracefs.Batch) error {
	h := r.begin(b)
	for i := range b.Records {
		rec := &b.Records[i]
		r.record(h, i, rec)
		if err := r.checkAfter(rec); err != nil {
			return fmt.Errorf("after record %d, %q: %w", i, b.Text[rec.Off:rec.End], err)
		}
	}
	return nil
}

// checkTrace resolves a trace and checks the invariants after every record of it, and
// whenever a batch goes out or comes back. It returns the resolver at the end.
func checkTrace(t *testing.T, trace *input.Trace, opt Options) *Resolver {
	t.Helper()
	defer trace.Close()
	r := New(opt)
	check := func(when string) {
		if err := r.check(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	for b := new(tracefs.Batch); ; {
		err := trace.Next(b)
		if err := r.addEach(b); err != nil {
			t.Fatal(err)
		}
		b = nil
		if err != nil {
			r.End()
			check("at the end")
		}
		for h := r.Next(); h != nil; h = r.Next() {
			check("after a batch went out")
			b = r.Release(h)
			check("after a batch came back")
		}
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			b = new(tracefs.Batch)
		}
	}
}

// silent is evidence that knows nothing.
type silent struct{}

func (silent) Attribute(s *Query) { s.Identify() }

// checks are the options with which traces are resolved: what is held for long and not at
// all, with tables that are large enough and too small.
var checks = []struct {
	name string
	in   input.Options
	opt  Options
}{
	{"stitched", input.Options{Events: true}, Options{Stitch: true, Sources: 1, Hold: Limits{Lines: 2000, Time: 2e9}}},
	{"alone", input.Options{NoTemplates: true}, Options{Sources: 1, Hold: Limits{Bytes: 1 << 16}, Strict: true, Attributor: silent{}}},
	{"small", input.Options{Events: true}, Options{Stitch: true, Sources: 1, Hold: Limits{Lines: 20}, Identifiers: 4}},
}

// TestInvariants checks what the parts of a resolver say of themselves after every
// record of captures.
func TestInvariants(t *testing.T) {
	capturetest.SkipShort(t)
	files, err := filepath.Glob("../../testdata/captures/*/*/trace.txt.zst")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d captures: %v", len(files), err)
	}
	for i, file := range files {
		name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../testdata/captures/")
		if filepath.Base(name) == "fields" { // it has no layout that can be read
			continue
		}
		if capturetest.Brief() && i%4 != 3 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, c := range checks {
				trace, err := input.OpenAll([]string{file}, nil, c.in)
				if err != nil {
					t.Fatal(err)
				}
				checkTrace(t, trace, c.opt)
			}
		})
	}
}

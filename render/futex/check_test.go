package futex

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/input"
)

// CheckEach is a renderer for tests of the package: it passes an Analysis one record
// after another, and fails after the first one with which an invariant breaks.
func CheckEach(a *Analysis, h *resolve.Pending) error {
	whole := *h.Batch
	for i := range whole.Records {
		one, b := *h, whole
		b.Records = whole.Records[i : i+1]
		one.Batch = &b
		if i < len(h.Attached) {
			one.Attached = h.Attached[i : i+1]
		}
		one.Paused = h.Paused && i == len(whole.Records)-1
		if err := a.Batch(&one); err != nil {
			return err
		}
		if err := a.check(); err != nil {
			return fmt.Errorf("after record %d, %q: %w", i, whole.Text[b.Records[0].Off:b.Records[0].End], err)
		}
	}
	return nil
}

// checkTrace analyses a trace and checks the invariants after every record of it.
func checkTrace(t *testing.T, trace *input.Trace, opt Options) *Analysis {
	t.Helper()
	defer trace.Close()
	a := New(opt)
	res := resolve.New(resolve.Options{Stitch: true, Sources: 1, Hold: resolve.Limits{Lines: 2000, Time: tracefs.Time(2e9)}})
	for {
		b := new(tracefs.Batch)
		err := trace.Next(b)
		res.Add(b)
		if err != nil {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			if err := CheckEach(a, h); err != nil {
				t.Fatal(err)
			}
			res.Release(h)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a.Interim(View{})
	if err := a.check(); err != nil {
		t.Errorf("after an interim report: %v", err)
	}
	a.Report(View{})
	if err := a.check(); err != nil {
		t.Errorf("after the report: %v", err)
	}
	return a
}

// checkSample are the captures that are checked unless USTACK_LONG is set: each dialect,
// hostile names, lost records, threads with and without their processes, and pages.
var checkSample = []string{
	"hash/edge3", "hash/lost", "inode-v6exact/pipe_default", "inode/tgid", "stock/pipe_live", "stock/static_raw", "stock/symuserobj",
}

// TestInvariants checks what the parts of an analysis say of themselves after every
// record of captures. What other tests of the package read from a text is checked so, too.
func TestInvariants(t *testing.T) {
	files, err := filepath.Glob("../../testdata/captures/*/*/trace.txt.zst")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d captures: %v", len(files), err)
	}
	sample := checkSample
	if capturetest.Packagers() {
		sample = sample[:3]
	}
	checked := 0
	for _, file := range files {
		name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../testdata/captures/")
		if filepath.Base(name) == "fields" || capturetest.Brief() && !slices.Contains(sample, name) {
			continue // fields has no layout that can be read
		}
		checked++
		t.Run(name, func(t *testing.T) {
			for _, opt := range []Options{{}, {Locks: 4, Threads: 4, Stacks: 4, Calls: true}} {
				trace, err := input.OpenAll([]string{file}, nil, input.Options{Events: true})
				if err != nil {
					t.Fatal(err)
				}
				checkTrace(t, trace, opt).DropCalls()
			}
		})
	}
	if checked < len(sample) {
		t.Errorf("%d captures", checked)
	}
}

package futex_test

import (
	"io"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// analyse reads a trace as the command does.
func analyse(t testing.TB, opt futex.Options, names ...string) *futex.Analysis {
	t.Helper()
	a := read(t, opt, names...)
	if a.NeedsGaps() {
		opt.Gaps = a.Gaps()
		a = read(t, opt, names...)
	}
	return a
}

func read(t testing.TB, opt futex.Options, names ...string) *futex.Analysis {
	t.Helper()
	trace, err := input.OpenAll(names, nil, input.Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	a := futex.New(opt)
	drive(t, trace, a, len(names))
	return a
}

// analyseText reads a trace that is at hand.
func analyseText(t testing.TB, opt futex.Options, text string) *futex.Analysis {
	t.Helper()
	once := func() *futex.Analysis {
		trace, err := input.OpenAll([]string{"-"}, strings.NewReader(text), input.Options{Events: true})
		if err != nil {
			t.Fatal(err)
		}
		a := futex.New(opt)
		drive(t, trace, a, 1)
		return a
	}
	a := once()
	if a.NeedsGaps() {
		opt.Gaps = a.Gaps()
		a = once()
	}
	return a
}

func drive(t testing.TB, trace *input.Trace, a *futex.Analysis, sources int) {
	t.Helper()
	hold := resolve.Limits{Lines: 200_000, Bytes: 1 << 20, Time: tracefs.Time(2e9)}
	driveSteps(t, trace, a, resolve.Options{Stitch: true, Sources: sources, Hold: hold}, func(int) bool { return true })
}

// checkedRecords is up to how many records of a batch invariants are checked after
// each; TestInvariants does it with longer ones.
const checkedRecords = 512

// driveSteps reads a trace and calls step after each batch, while it wants more.
func driveSteps(t testing.TB, trace *input.Trace, a *futex.Analysis, opt resolve.Options, step func(n int) (more bool)) {
	t.Helper()
	defer trace.Close()
	res := resolve.New(opt)
	var err error
	for n := 0; err == nil; n++ {
		b := new(tracefs.Batch)
		if err = trace.Next(b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		res.Add(b)
		if err == io.EOF {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			batch := a.Batch
			if _, measured := t.(*testing.B); !measured && len(h.Records) <= checkedRecords {
				batch = func(h *resolve.Pending) error { return futex.CheckEach(a, h) }
			}
			if err := batch(h); err != nil {
				t.Fatal(err)
			}
			res.Release(h)
		}
		if !step(n) {
			return
		}
	}
}

// tryText reads a text that may be no trace; then it returns nil.
func tryText(opt futex.Options, text string) *futex.Analysis {
	trace, err := input.OpenAll([]string{"-"}, strings.NewReader(text), input.Options{Events: true})
	if err != nil {
		return nil
	}
	defer trace.Close()
	a := futex.New(opt)
	res := resolve.New(resolve.Options{Stitch: true, Sources: 1, Hold: resolve.Limits{Bytes: 1 << 12}})
	for {
		b := new(tracefs.Batch)
		err := trace.Next(b)
		res.Add(b)
		if err != nil {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			_ = a.Batch(h)
			res.Release(h)
		}
		if err == io.EOF {
			return a
		}
		if err != nil {
			return nil
		}
	}
}

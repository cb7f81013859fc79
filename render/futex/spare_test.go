package futex_test

import (
	"io"
	"path/filepath"
	"testing"

	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/capturetest"
)

// TestSpare: a report needs none of the stacks that binary.Options.Spare leaves out.
func TestSpare(t *testing.T) {
	left := 0
	for _, name := range []string{"static_raw", "tgid_raw", "lost_raw"} {
		dir, err := binary.OpenDir(capturetest.Unpack(t, filepath.Join(captures, "stock", name, "raw.tar.zst")))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		all, n := spareReport(t, dir, false)
		some, m := spareReport(t, dir, true)
		if left += n - m; all != some {
			t.Errorf("%s: the report is\n%s\nwith all stacks it is\n%s", name, some, all)
		}
	}
	if left < 100 {
		t.Errorf("only %d stacks are left out", left)
	}
}

// spareReport reads a trace, and returns how many stacks it has.
func spareReport(t *testing.T, dir *binary.Dir, spare bool) (report string, stacks int) {
	t.Helper()
	a := futex.New(futex.Options{Calls: true})
	res := resolve.New(resolve.Options{Stitch: true, Sources: 1, Waits: true, Hold: resolve.Limits{Lines: 200_000, Bytes: 1 << 20, Time: tracefs.Time(2e9)}})
	s, err := dir.Source(binary.Options{Events: true, NoText: true, NoTemplates: true, Spare: spare}, nil), error(nil)
	for err == nil {
		b := new(tracefs.Batch)
		if err = s.Next(b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		res.Add(b)
		if err == io.EOF {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			if err := a.Batch(h); err != nil {
				t.Fatal(err)
			}
			res.Release(h)
		}
	}
	return asJSON(t, a.Report(futex.View{})), int(res.Totals().Stacks)
}

package analysis_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"ustack/cmd/ustack/internal/analysis"
	"ustack/cmd/ustack/internal/saved"
	"ustack/render/futex"
	"ustack/render/futex/report"
	"ustack/render/lost"
	"ustack/render/wait"
	waitreport "ustack/render/wait/report"
	"ustack/tracefs/capturetest"
)

// reportOf reads a trace with as many processors, and returns the reports of it.
func reportOf(t *testing.T, processors int, trace string) []byte {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	var out bytes.Buffer
	futexes := analysis.Saved[*futex.Analysis]{From: &saved.Options{Files: []string{trace}, Quiet: true}, New: func(_ *saved.Trace, gaps *lost.Gaps) *futex.Analysis {
		return futex.New(futex.Options{Gaps: gaps, Order: true, Impact: futex.ImpactView{On: true}})
	}}
	waits := analysis.Saved[*wait.Analysis]{From: &saved.Options{Files: []string{trace}, Quiet: true}, New: func(_ *saved.Trace, gaps *lost.Gaps) *wait.Analysis {
		return wait.New(wait.Options{Gaps: gaps})
	}}
	f, err := futexes.Read(nil, io.Discard)
	w, werr := waits.Read(nil, io.Discard)
	if err := errors.Join(err, werr); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(report.JSON(&out, f.Report(futex.View{})), waitreport.JSON(&out, w.Report(wait.View{}))); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestProcessors: a report is the same where the analysis runs beside the resolver. The
// race detector looks on: stacks are those of events in other batches, too, where they come
// on return to user space.
func TestProcessors(t *testing.T) {
	traces, err := filepath.Glob("../../../../testdata/captures/*/*/trace.txt.zst")
	if err != nil || len(traces) < 10 {
		t.Fatalf("%d captures: %v", len(traces), err)
	}
	for i, trace := range traces {
		if filepath.Base(filepath.Dir(trace)) == "fields" || capturetest.Brief() && i%4 > 0 { // it has no stacks
			continue
		}
		t.Run(trace, func(t *testing.T) {
			dir := t.TempDir()
			plain := filepath.Join(dir, "trace") // read in parts
			if err := os.WriteFile(plain, capturetest.Read(t, trace), 0o600); err != nil {
				t.Fatal(err)
			}
			want := reportOf(t, 1, plain)
			for _, from := range []string{plain, trace} {
				if got := reportOf(t, 2, from); !bytes.Equal(got, want) {
					t.Errorf("with two processors the report of %s is\n%s\nwith one it is\n%s", from, got, want)
				}
			}
		})
	}
}

package contention

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/analysis"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// TestRefused: records that the kernel refuses, and that the trace does not report,
// are lost like others: there are no bounds, and nothing is sure.
func TestRefused(t *testing.T) {
	const trace = `            prog-10      [000] .....     1.000000: sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
            prog-11      [001] .....     1.003000: sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
            prog-11      [001] .....     1.003010: sys_futex -> 0x1
            prog-10      [000] .....     1.003100: sys_futex -> 0x0
`
	for _, overrun := range []uint64{0, 3} {
		var doc struct {
			Contended struct {
				High *int64 `json:"high_ns"`
			}
			Longest []struct {
				Confidence string `json:"holder_confidence"`
			}
			Loss struct {
				Refused uint64
				Bounded bool
				Unseen  *int64 `json:"unseen_threads_ns"`
			}
		}
		stdout := report(t, Output{JSON: true}, trace, overrun)
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
			t.Fatal(err)
		}
		l, sure := doc.Loss, overrun == 0
		if l.Refused != overrun || l.Bounded != sure || (l.Unseen != nil) != sure || (doc.Contended.High != nil) != sure ||
			len(doc.Longest) != 1 || (doc.Longest[0].Confidence == "high") != sure {
			t.Errorf("%d: %+v\n%s", overrun, doc, stdout)
		}
	}
	stdout := report(t, Output{}, trace, 3)
	for _, want := range []string{
		"3.10 ms (seen, records were lost) waited for 1 lock",
		"(low confidence: the kernel refused records, at an unknown time)",
		"\nLoss: the kernel refused 3 records (commit overrun) at unknown times, so all sums are of what was seen.\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
}

// report passes a trace through a sink, whose kernel has refused some records.
func report(t *testing.T, out Output, trace string, refused uint64) string {
	t.Helper()
	var stdout bytes.Buffer
	sink := NewLive(out, LiveOptions{LiveOptions: analysis.LiveOptions{Stdout: &stdout, Reporter: &live.Reporter{Quiet: true, Out: io.Discard}}})
	start := &live.Start{
		Refused: func() uint64 { return refused },
		Stopped: func() tracefs.Time { return 0 },
		Idle:    func() bool { return true },
	}
	if _, err := sink.Open(start); err != nil {
		t.Fatal(err)
	}
	feed(t, trace, sink)
	if err := sink.End(); err != nil {
		t.Fatal(err)
	}
	return stdout.String()
}

// feed has a sink get a trace as live does.
func feed(t *testing.T, text string, sink *Live) {
	t.Helper()
	trace, err := input.OpenAll([]string{"-"}, strings.NewReader(text), input.Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	res := resolve.New(resolve.Options{Stitch: true, Sources: trace.Sources()})
	totals, err := pump.Run(trace.Start(), res, sink.Renderer(res), func() {})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := sink.Step(totals); done || err != nil {
		t.Fatalf("done: %v, %v", done, err)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestInferredCaptures: the functions that are inferred in captures are those of
// a list that was looked through by hand, with the sources of the programs and
// the machine code of the libraries. Each line is the frame before, the function,
// and the frame after it. And what was inferred hides nothing: without those
// frames the output is that of --no-infer.
func TestInferredCaptures(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	const golden = "testdata/inferred.txt"
	root := truthRoot(t)
	seen := make(map[string]bool)
	frames, inferred := 0, 0
	for _, c := range []string{"hash/pipe_default", "hash/edge", "inode/pipe_odd", "hash/static_raw"} {
		args := []string{"replay", "-q", "--format=json", "--symbols", "--no-lines", "--sysroot", root, "../../testdata/captures/" + c + "/trace.txt.zst"}
		for line := range strings.Lines(inferredRun(t, args...)) {
			var record struct{ Stack []symbolFrame }
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			frames += len(record.Stack)
			for i, f := range record.Stack {
				if f.Inferred {
					inferred++
					seen[fmt.Sprintf("%s < %s < %s of %q", record.Stack[i-1].Function, f.Function, record.Stack[i+1].Function, path.Base(f.Path))] = true
				}
			}
		}
		var with strings.Builder
		for line := range strings.Lines(inferredRun(t, "replay", "-q", "--symbols", "--no-lines", "--sysroot", root, args[len(args)-1])) {
			if !strings.Contains(line, " (inferred) ") {
				with.WriteString(line)
			}
		}
		without := inferredRun(t, "replay", "-q", "--symbols", "--no-infer", "--no-lines", "--sysroot", root, args[len(args)-1])
		if diff := truthDiff(without, with.String()); diff != "" {
			t.Errorf("%s: %s", c, diff)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(slices.Sorted(maps.Keys(seen)), "\n") + "\n"
	if string(want) != got {
		t.Errorf("%s differs; now:\n%s", golden, got)
	}
	t.Logf("%d of %d frames are inferred, %d different ones", inferred, frames, len(seen))
}

// TestInferredAgain: our own output keeps inferred frames as they are, and the
// mark with them, whatever it is made into; a report has none.
func TestInferredAgain(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	root := truthRoot(t)
	const trace = "../../testdata/captures/hash/pipe_default/trace.txt.zst"
	own := t.TempDir() + "/own.txt"
	names := []string{"replay", "-q", "--symbols", "--no-lines", "--sysroot", root}
	once := inferredRun(t, append(names, trace)...)
	if err := os.WriteFile(own, []byte(once), 0o600); err != nil {
		t.Fatal(err)
	}
	n := strings.Count(once, " (inferred) ")
	for _, args := range [][]string{{"replay", "-q", own}, append(names, own), {"replay", "-q", "--symbols", "--no-infer", "--sysroot", root, "--no-lines", own}} {
		if diff := truthDiff(once, inferredRun(t, args...)); diff != "" {
			t.Errorf("%q: %s", args, diff)
		}
	}
	want := 0
	for line := range strings.Lines(inferredRun(t, append(names, "--format=json", trace)...)) {
		if !strings.HasPrefix(line, `{"type":"file_map"`) { // which text leaves out
			want += strings.Count(line, `,"inferred":true}`)
		}
	}
	if got := strings.Count(inferredRun(t, "replay", "-q", "--format=json", own), `,"inferred":true}`); got != want || got < n {
		t.Errorf("JSON has %d inferred frames of %d", got, want)
	}
	for _, format := range []string{"folded", "speedscope", "html"} {
		if !strings.Contains(inferredRun(t, "replay", "-q", "--format="+format, own), "+0x15d0 (inferred)") {
			t.Errorf("%s does not mark inferred frames", format)
		}
		if out := inferredRun(t, append(names, "--format="+format, trace)...); !strings.Contains(out, "refresh_cache_entry (inferred)") {
			t.Errorf("%s does not mark what it has inferred", format)
		}
	}
	report := t.TempDir() + "/report.zst"
	inferredRun(t, "redact", "-q", "-o", report, own)
	if out := inferredRun(t, "replay", "-q", "--format=folded", report); strings.Contains(out, "inferred") || strings.Contains(out, "+0x15d0") || !strings.Contains(out, "+0x1629") {
		t.Error("a report has an inferred frame, or no frames")
	}
	if n == 0 {
		t.Error("nothing is inferred")
	}
}

func inferredRun(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("run(%q) = %d, stderr: %s", args, code, stderr.String())
	}
	return stdout.String()
}

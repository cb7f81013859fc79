package input

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// TestPerfData: a perf.data is known by its first bytes: as a file, compressed as a whole,
// and from a pipe. It can be read twice. Text that begins like one is text.
func TestPerfData(t *testing.T) {
	const capture = "../../testdata/captures/perf-deferred/b.data.zst"
	data := capturetest.Read(t, capture)
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "plain"), filepath.Join(dir, "packed.gz")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{plain: data, packed: b.Bytes()} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var want string
	for _, c := range []struct {
		name  string
		stdin io.Reader
	}{{plain, nil}, {capture, nil}, {packed, nil}, {"-", struct{ io.Reader }{bytes.NewReader(data)}}} {
		trace, err := OpenAll([]string{c.name}, c.stdin, Options{Events: true})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(trace.Recorded()) != 1 || trace.Clock() != "mono" {
			t.Errorf("%s: %d of perf, clock %q", c.name, len(trace.Recorded()), trace.Clock())
		}
		again := trace.Again()
		for range 2 {
			got := readText(t, trace)
			if want == "" {
				want = got
			}
			if got != want || !strings.Contains(got, "sys_futex(") {
				t.Errorf("%s: %d bytes of text instead of %d", c.name, len(got), len(want))
			}
			if trace, err = again(Options{Events: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := trace.Close(); err != nil {
			t.Error(err)
		}
	}
	const line = "PERFILE1\n            task-123     [000] .....     1.000000: sys_futex -> 0x0\n"
	text, err := OpenAll([]string{"-"}, strings.NewReader(line), Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := readText(t, text); got != line {
		t.Errorf("text: %q", got)
	}
}

// readText reads a trace to its end and returns its text.
func readText(t *testing.T, trace *Trace) string {
	t.Helper()
	var b tracefs.Batch
	var out strings.Builder
	for {
		err := trace.Next(&b)
		out.Write(b.Text)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestInputWays: what is said of a trace and the mappings saved with it does not depend on
// whether it is a plain file, a compressed one, or comes by a pipe, where its head is known
// late.
func TestInputWays(t *testing.T) {
	const dir = "../../testdata/git-whole"
	maps, compressed, plain := filepath.Join(dir, "spaces.txt"), filepath.Join(dir, "trace.txt.zst"), filepath.Join(t.TempDir(), "trace.txt")
	trace := capturetest.Read(t, compressed)
	if err := os.WriteFile(plain, trace, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"futex"}, {"futex", "-v"}, {"futex", "--json"}, {"wait", "--json"}, {"replay", "--format=json", "-q"}, {"futex", "--format=pprof", "--blame"}} {
		args = append(args, "--maps", maps)
		var want []byte
		for _, from := range []string{plain, compressed, "-"} {
			var out, messages bytes.Buffer
			if code := run(append(args[:len(args):len(args)], from), bytes.NewReader(trace), &out, &messages); code != exitOK {
				t.Fatalf("%q %s: exit code %d: %s", args, from, code, messages.String())
			}
			if want == nil {
				want = out.Bytes()
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("%q: the output of %s is not the one of the plain file:\n%s", args, from, firstDifference(want, out.Bytes()))
			}
		}
	}
}

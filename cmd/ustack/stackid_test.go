package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/stackid/stackidtest"
)

// TestStackIDs: with the saved stack_map beside a trace, its kernel stacks come back; without
// one, or with one of another trace, lines with numbers pass through.
func TestStackIDs(t *testing.T) {
	whole := capturetest.Read(t, "../../testdata/captures/hash/kstack/trace.txt.zst")
	numbered, stacks := stackidtest.Number(whole)
	replayed := func(trace, stackMap []byte, zip bool, args ...string) (out, notes string) {
		t.Helper()
		dir := t.TempDir()
		if zip {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			if _, err := z.Write(trace); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			trace = b.Bytes()
		}
		name := filepath.Join(dir, "trace.txt")
		if err := os.WriteFile(name, trace, 0o666); err != nil {
			t.Fatal(err)
		}
		if stackMap != nil {
			if err := os.WriteFile(filepath.Join(dir, "stack_map"), stackMap, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr bytes.Buffer
		if code := run(append(append([]string{"replay", "-q"}, args...), name), strings.NewReader(""), &stdout, &stderr); code != exitOK {
			t.Fatalf("exit %d: %s", code, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	for _, args := range [][]string{nil, {"--format=json"}} {
		want, _ := replayed(whole, nil, false, args...)
		stackMap := stackidtest.Text(stacks)
		for _, zip := range []bool{false, true} {
			got, notes := replayed(numbered, stackMap, zip, args...)
			if got != want || !strings.Contains(notes, "kernel stacks by their numbers are from ") {
				t.Errorf("%v: %d bytes, without numbers %d; %s", args, len(got), len(want), notes)
			}
		}
		plain, _ := replayed(numbered, nil, false, args...)
		if n := strings.Count(plain, "stack_id "); n != 817 {
			t.Errorf("%v: %d numbers without a map", args, n)
		}
		stacks[0].Refs--
		got, notes := replayed(numbered, stackidtest.Text(stacks), false, args...)
		stacks[0].Refs++
		if got != plain || !strings.Contains(notes, "is not a map of this trace") {
			t.Errorf("%v: a map of another trace: %d bytes, not %d; %s", args, len(got), len(plain), notes)
		}
	}
}

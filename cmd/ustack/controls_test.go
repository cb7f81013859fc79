package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/escape"
)

// TestControls: what a terminal acts on is in no output that is text, whatever threads call
// themselves. U+009b is one of them: to a terminal it is ESC [.
func TestControls(t *testing.T) {
	const name, hostile = "             git-", "         g\u009b\x7f\u202e-" // as many bytes
	trace := bytes.ReplaceAll(capturetest.Read(t, "../../testdata/git-grep/trace.txt.zst"), []byte("\n"+name), []byte("\n"+hostile))
	if n := bytes.Count(trace, []byte(hostile)); n < 1000 {
		t.Fatalf("%d threads with the name", n)
	}
	file := filepath.Join(t.TempDir(), "trace.txt")
	if err := os.WriteFile(file, trace, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"replay --format=json", "replay --format=folded", "replay --format=speedscope", "replay --format=html",
		"futex", "futex -v", "futex --format=markdown", "futex --format=json", "futex --format=html", "futex --format=folded",
		"futex --format=speedscope", "wait", "wait -v", "wait --format=json", "wait --format=markdown",
	} {
		out, messages := runs(t, exitOK, append(strings.Fields(args), file)...)
		named := !strings.HasPrefix(args, "wait") // which has stacks only
		if named && !strings.Contains(out, `g\302\233\177\342\200\256`) && !strings.Contains(out, `g\u009b\u007f\u202e`) {
			t.Errorf("%s: the name is not there", args)
		}
		if at := strings.IndexFunc(out, acts); at >= 0 {
			t.Errorf("%s: a terminal acts on %q", args, out[max(at-40, 0):min(at+10, len(out))])
		}
		if at := strings.IndexFunc(messages, acts); at >= 0 {
			t.Errorf("%s: a terminal acts on a message: %q", args, messages)
		}
	}
}

// acts is escape.Acts but for what separates lines and columns.
func acts(r rune) bool { return r != '\n' && r != '\t' && escape.Acts(r) }

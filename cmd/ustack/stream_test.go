package main

// Properties of the whole program, in process: how the text comes in changes
// nothing, and its own output is an input that it has nothing to say about.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"ustack/cmd/ustack/internal/tracegen"
	"ustack/tracefs/capturetest"
)

// streamSmall are captures small enough to be read many times over: both
// identifiers, stacks of the kernel, hostile names and records cut off, lost
// records, short-lived tasks, other columns and another clock.
var streamSmall = []string{
	"hash/edge3", "inode/edge3", "stock/symuserobj", "hash/edge", "hash/churn", "hash/lost",
	"hash/kstack", "hash/counter", "inode/tgid", "stock/noirq",
}

// streamForms are the outputs that are compared.
var streamForms = [][]string{
	{"--format=text"},
	{"--format=text", "--stitch", "--keep-maps"},
	{"--format=json"},
}

// A streamInput is a way for a text to come in: as a file by name (args), or
// on standard input.
type streamInput struct {
	name  string
	stdin func(t *testing.T, text []byte) io.Reader
}

func streamInputs(seed uint64) []streamInput {
	random := func() *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
	return []streamInput{
		{"regular file on stdin", func(t *testing.T, text []byte) io.Reader {
			f, err := os.Open(streamFile(t, text))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			return f
		}},
		{"pipe", func(t *testing.T, text []byte) io.Reader { return streamPipe(t, text, random()) }},
		{"reader in pieces", func(_ *testing.T, text []byte) io.Reader {
			return &pieceReader{r: bytes.NewReader(text), random: random()}
		}},
		{"reader with data and EOF at once", func(_ *testing.T, text []byte) io.Reader {
			return iotest.DataErrReader(&pieceReader{r: bytes.NewReader(text), random: random()})
		}},
	}
}

// pieceSize is the length of the next piece: often a few bytes, often some
// lines, now and then more than a read.
func pieceSize(random *rand.Rand) int {
	return 1 + random.IntN(1<<(1+random.IntN(18)))
}

// pieceReader reads in pieces of any size.
type pieceReader struct {
	r      io.Reader
	random *rand.Rand
}

func (p *pieceReader) Read(b []byte) (int, error) {
	return p.r.Read(b[:min(len(b), pieceSize(p.random))])
}

// streamFile writes a text to a file of its own.
func streamFile(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trace.txt")
	if err := os.WriteFile(name, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// streamPipe returns the reading end of a pipe that the text is written to in
// pieces.
func streamPipe(t *testing.T, text []byte, random *rand.Rand) io.Reader {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		for len(text) > 0 {
			n := min(len(text), pieceSize(random))
			if _, err := w.Write(text[:n]); err != nil {
				written <- errors.Join(err, w.Close())
				return
			}
			text = text[n:]
		}
		written <- w.Close()
	}()
	t.Cleanup(func() {
		_ = r.Close()
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
	return r
}

// streamReplay replays what comes in. A pause of the machine is none of the
// pipe's: it must not release records early.
func streamReplay(t *testing.T, args []string, stdin io.Reader) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{"replay", "-q", "--hold-pause=10m"}, args...)
	if code := run(args, stdin, &stdout, &stderr); code != exitOK {
		t.Fatalf("run(%q) = %d, stderr: %s", args, code, stderr.String())
	}
	return stdout.String()
}

// streamCaptures are the captures that are read once or twice only: all that
// have stacks, or with -short the small ones.
func streamCaptures(t *testing.T) []truthCapture {
	t.Helper()
	return slices.DeleteFunc(truthCaptures(t), func(c truthCapture) bool {
		return c.isFields() || testing.Short() && !slices.Contains(streamSmall, c.name)
	})
}

// streamSome are the captures that are read many times over, some of them with
// -short.
func streamSome() []string {
	if testing.Short() {
		return streamSmall[:3]
	}
	return streamSmall
}

// streamRead returns a capture of testdata.
func streamRead(t *testing.T, name string) []byte {
	t.Helper()
	return capturetest.Read(t, filepath.Join("../../testdata/captures", name, "trace.txt.zst"))
}

// TestStreamInputs: a file, a pipe, and pieces of any size give the same bytes.
func TestStreamInputs(t *testing.T) {
	for i, name := range streamSome() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := streamRead(t, name)
			file := streamFile(t, text)
			for _, form := range streamForms {
				want := streamReplay(t, append(slices.Clone(form), file), nil)
				for _, in := range streamInputs(uint64(i)) {
					got := streamReplay(t, form, in.stdin(t, text))
					if diff := truthDiff(want, got); diff != "" {
						t.Errorf("%v: %s: %s", form, in.name, diff)
					}
				}
			}
		})
	}
}

// TestStreamBytes: one byte at a time gives the same bytes, from a reader and
// from a pipe, wherever the text ends.
func TestStreamBytes(t *testing.T) {
	const size = 30 << 10
	for i, name := range streamSome() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := streamRead(t, name)
			random := rand.New(rand.NewPCG(uint64(i), 2))
			start := bytes.IndexByte(text[random.IntN(len(text)-2*size):], '\n') + 1
			text = text[start : start+size+random.IntN(500)]
			file := streamFile(t, text)
			for _, form := range streamForms {
				want := streamReplay(t, append(slices.Clone(form), file), nil)
				got := streamReplay(t, form, iotest.OneByteReader(bytes.NewReader(text)))
				if diff := truthDiff(want, got); diff != "" {
					t.Errorf("%v: one byte at a time: %s", form, diff)
				}
				got = streamReplay(t, append(slices.Clone(form), "-"), streamBytePipe(t, text))
				if diff := truthDiff(want, got); diff != "" {
					t.Errorf("%v: one byte at a time through a pipe: %s", form, diff)
				}
			}
		})
	}
}

// streamBytePipe returns the reading end of a pipe that gives one byte a read.
func streamBytePipe(t *testing.T, text []byte) io.Reader {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range text {
			if _, err := w.Write(text[i : i+1]); err != nil {
				t.Errorf("writing to the pipe: %v", err)
				break
			}
		}
		if err := w.Close(); err != nil {
			t.Errorf("closing the pipe: %v", err)
		}
	}()
	t.Cleanup(func() {
		_ = r.Close()
		<-done
	})
	return r
}

// TestStreamParts: a file that is large enough to be read in parts, by several
// processors, gives what a pipe gives.
func TestStreamParts(t *testing.T) {
	var text bytes.Buffer
	if _, err := tracegen.Write(&text, tracegen.Config{Bytes: 3 << 20, Seed: 7}); err != nil {
		t.Fatal(err)
	}
	file := streamFile(t, text.Bytes())
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, form := range streamForms {
		// What does not come in time is looked up in a file only.
		form = append([]string{"--hold-bytes=100000000", "--hold-lines=0", "--hold-time=1000h"}, form...)
		want := streamReplay(t, form, bytes.NewReader(text.Bytes()))
		if got := streamReplay(t, append(form, file), nil); got != want {
			t.Errorf("%q: %d bytes from the file, %d from the pipe, and not the same", form, len(got), len(want))
		}
	}
}

// TestStreamCuts: a text that ends anywhere after its first record is no failure,
// and all of it but frames and mapping events comes out again.
func TestStreamCuts(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	text := streamRead(t, "hash/edge3")
	text = text[:24<<10]
	first := bytes.IndexByte(text, '\n') + 1
	random := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		piece := text[:first+random.IntN(len(text)-first+1)]
		out := streamReplay(t, nil, bytes.NewReader(piece))
		if got, want := streamEvents(out), streamEvents(string(piece)); got != want {
			t.Fatalf("cut after %d bytes: %s", len(piece), truthDiff(want, got))
		}
	}
}

// streamEvents is the text that replay must not change, by whole lines.
func streamEvents(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, ": sys_") || strings.Contains(line, ": sched_") || strings.Contains(line, ": cookie=") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestStreamOwnOutput: replaying the output of replay gives the same bytes.
func TestStreamOwnOutput(t *testing.T) {
	for _, c := range streamCaptures(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, id := range []string{"kernel", "hex", "none"} {
				form := []string{"--build-id=" + id}
				once := streamReplay(t, append(slices.Clone(form), c.args...), nil)
				twice := streamReplay(t, form, strings.NewReader(once))
				if diff := truthDiff(once, twice); diff != "" {
					t.Errorf("--build-id=%s: %s", id, diff)
				}
			}
		})
	}
}

// TestStreamJSON: each line of the JSON of each capture is an object of a known
// type, and the totals are those of the text: as many frames with each reason.
func TestStreamJSON(t *testing.T) {
	for _, c := range streamCaptures(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			counted := streamReasons(streamReplay(t, c.args, nil))
			out := streamReplay(t, append([]string{"--format=json"}, c.args...), nil)
			totals, err := streamObjects(out)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(totals.Unresolved), fmt.Sprint(counted); got != want {
				t.Errorf("unresolved frames: %s in JSON, %s in the text", got, want)
			}
		})
	}
}

// streamTotals is what the last line of JSON has of frames.
type streamTotals struct {
	Frames               int64
	Resolved, Unresolved map[string]int64
}

// streamObjects checks each line of the JSON output and returns the totals.
func streamObjects(out string) (totals streamTotals, err error) {
	known := []string{"header", "event", "stack", "kernel_stack", "cookie", "file_map", "lost", "gap", "note", "totals"}
	n, last := 0, ""
	for line := range strings.Lines(out) {
		n++
		var object struct{ Type string }
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			return totals, fmt.Errorf("line %d: %w: %s", n, err, line)
		}
		if !slices.Contains(known, object.Type) || (object.Type == "header") != (n == 1) || last == "totals" {
			return totals, fmt.Errorf("line %d has type %q, the one before %q: %s", n, object.Type, last, line)
		}
		last = object.Type
		if last == "totals" {
			if err := json.Unmarshal([]byte(line), &totals); err != nil {
				return totals, fmt.Errorf("line %d: %w", n, err)
			}
		}
	}
	sum := int64(0)
	for _, counts := range []map[string]int64{totals.Resolved, totals.Unresolved} {
		for _, count := range counts {
			sum += count
		}
	}
	if last != "totals" || sum != totals.Frames {
		return totals, fmt.Errorf("the last of %d lines has type %q; %d frames, but %d outcomes", n, last, totals.Frames, sum)
	}
	return totals, nil
}

// streamReasons counts the frames of a text by the reason that is given.
func streamReasons(text string) map[string]int64 {
	counts := make(map[string]int64)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		_, reason, ok := strings.Cut(line, " (unresolved: ")
		if ok && strings.HasPrefix(line, " => ") && strings.HasSuffix(line, ")") {
			counts[strings.TrimSuffix(reason, ")")]++
		}
	}
	return counts
}

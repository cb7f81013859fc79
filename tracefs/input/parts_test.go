package input

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ustack/tracefs"
)

// drainBatches is drain for Batches.
func drainBatches(t testing.TB, p Batches) result {
	t.Helper()
	defer p.Close()
	return drain(t, batchReader{p})
}

// batchReader reads batches that others have filled.
type batchReader struct{ Batches }

func (r batchReader) Next(b *tracefs.Batch) error {
	next, err := r.Batches.Next()
	own := *next
	own.Text = append([]byte(nil), next.Text...)
	own.Records = append([]tracefs.Record(nil), next.Records...)
	*b = own
	r.Free(next)
	return err
}

// inParts reads a file in parts of a size, by so many workers.
func inParts(t testing.TB, name string, workers int, size, seam int64) (result, *Parts) {
	t.Helper()
	trace, err := OpenAll([]string{name}, nil, Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	p := newParts(trace, trace.Reader.(*Source), workers, size, seam)
	return drainBatches(t, p), p
}

// TestParts: a file that is read in parts, however small, has the records of
// one that is read in order.
func TestParts(t *testing.T) {
	names, err := filepath.Glob("../../testdata/captures/*/*/trace.txt.zst")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	tried := 0
	for n, name := range names {
		if testing.Short() && n%8 != 0 {
			continue
		}
		whole := readAll(t, nil, name)
		if whole.err != nil {
			continue // a layout that is refused
		}
		plain := file(t, fmt.Sprint(n), []byte(whole.text))
		for _, c := range []struct{ size, seam int64 }{{500, 700}, {3000, 400}, {4096, 8 << 10}} {
			if len(whole.text) > 1<<20 && c.size < 4096 {
				continue
			}
			got, p := inParts(t, plain, 3, c.size, c.seam)
			if !reflect.DeepEqual(got, whole) {
				t.Errorf("%s in parts of %d: %d records, %d bytes, %d lines, error %v, want %d, %d, %d",
					name, c.size, len(got.records), len(got.text), got.lines, got.err, len(whole.records), len(whole.text), whole.lines)
			}
			if len(p.forks) > 0 {
				tried++
			}
		}
	}
	if tried == 0 {
		t.Error("nothing was read in parts")
	}
}

// TestPartsFallBack: text that looks like a header where none is, lines longer than
// a part, and bytes that are not text at all.
func TestPartsFallBack(t *testing.T) {
	inner := event("cat", 8, 1, "100.000000", "ev: y")
	for name, odd := range map[string]string{
		// The line feed is in the comm, so the second line is no record.
		"comm":      "  a\n" + inner[:13] + "-7       [000] ..... 100.000000: " + inner,
		"long line": event("cat", 7, 0, "100.000000", strings.Repeat("x", 40_000)),
		"zeros":     strings.Repeat("\x00", 10_000) + "\n",
		"no header": strings.Repeat("a note\n", 3000),
	} {
		t.Run(name, func(t *testing.T) {
			trace := events(200) + strings.Repeat(odd+events(20), 10) + events(2000)
			plain := file(t, "trace", []byte(trace))
			want := readAll(t, nil, plain)
			if want.text != trace {
				t.Fatalf("%d of %d bytes", len(want.text), len(trace))
			}
			for size := int64(600); size < 6000; size += 371 {
				got, _ := inParts(t, plain, 2, size, 1000)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("parts of %d: %d records, %d bytes, want %d, %d", size, len(got.records), len(got.text), len(want.records), len(want.text))
				}
			}
		})
	}
}

// TestPartsGrow: what is added to a file, or taken off it, while it is read.
func TestPartsGrow(t *testing.T) {
	head, tail := events(5000), events(300)
	for name, change := range map[string]func(name string) (want string, err error){
		"longer": func(name string) (string, error) {
			f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return "", err
			}
			_, err = f.WriteString(tail)
			return head + tail, errors.Join(err, f.Close())
		},
		"shorter": func(name string) (string, error) {
			size := strings.LastIndexByte(head[:len(head)/2], '\n') + 1
			return head[:size], os.Truncate(name, int64(size))
		},
	} {
		t.Run(name, func(t *testing.T) {
			plain := file(t, "trace", []byte(head))
			trace, err := OpenAll([]string{plain}, nil, Options{})
			if err != nil {
				t.Fatal(err)
			}
			want, err := change(plain)
			if err != nil {
				t.Fatal(err)
			}
			p := newParts(trace, trace.Reader.(*Source), 2, 4096, 1000)
			if got := drainBatches(t, p); got.text != want || got.err != nil {
				t.Errorf("%d bytes, error %v, want %d", len(got.text), got.err, len(want))
			}
		})
	}
}

// TestPartsClose: Close in the middle ends the workers.
func TestPartsClose(t *testing.T) {
	plain := file(t, "trace", []byte(events(20_000)))
	for batches := range 6 {
		trace, err := OpenAll([]string{plain}, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := newParts(trace, trace.Reader.(*Source), 3, 4096, 1000)
		for range batches {
			if _, err := p.Next(); err != nil {
				t.Fatal(err)
			}
		}
		p.Close()
		if _, err := trace.files[0].plain.Seek(0, io.SeekStart); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after %d batches the file is still open: %v", batches, err)
		}
	}
}

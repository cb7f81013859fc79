//go:build linux

package raw

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/instance"
)

// TestLiveGrow: a reader that does not read while four times its buffer is written loses
// nothing, if the writer waits for the buffer to be emptied, and the records come in their
// order; from copied pages and from mapped ones.
func TestLiveGrow(t *testing.T) {
	for name, copied := range map[string]bool{"read": true, "mapped": false} {
		t.Run(name, func(t *testing.T) { testGrow(t, copied) })
	}
}

func testGrow(t *testing.T, copied bool) {
	in := live(t)
	const kb = 512
	if err := in.Configure(instance.Config{BufferKB: kb}); err != nil {
		t.Fatal(err)
	}
	var held atomic.Int64
	l, err := Open(in, Options{
		LiveOptions: binary.LiveOptions{Options: binary.Options{Events: true}, Pause: time.Millisecond},
		Events:      []instance.Event{{System: "sched", Name: "sched_switch"}},
		Copy:        copied, Room: 64 << 20, Grown: func(n int64) { held.Store(n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
	written := writeSteps(t, in, 100, 0)
	var b tracefs.Batch
	if err := l.Next(&b); err != nil { // it has a sub-buffer now
		t.Fatal(err)
	}
	next := checkSteps(t, &b, 0)
	const size = 64 // at least, of a record
	for n := 0; n*size < 4*kb<<10; n += 2000 {
		written = writeSteps(t, in, 2000, written)
	}
	if err := in.Stop(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = l.Next(&b)
		next = checkSteps(t, &b, next)
	}
	if err != io.EOF || next != written || held.Load() == 0 {
		t.Errorf("%d records of %d, then %v; %d bytes were held", next, written, err, held.Load())
	}
}

// writeSteps writes numbered markers, and waits until most of each buffer is free. It returns
// the next number.
func writeSteps(t *testing.T, in *instance.Instance, n, from int) int {
	t.Helper()
	marker, err := os.OpenFile(filepath.Join(in.Path(), "trace_marker"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer marker.Close()
	for i := range n {
		if _, err := fmt.Fprintf(marker, "this is the marker of the number %d", from+i); err != nil {
			t.Fatal(err)
		}
	}
	const tries = 10_000
	for range tries {
		stats, err := in.Stats()
		if err != nil {
			t.Fatal(err)
		}
		most := uint64(0)
		for _, s := range stats {
			most = max(most, s.Bytes)
			if s.Lost() > 0 {
				t.Fatalf("CPU %d has lost records: %+v", s.CPU, s)
			}
		}
		if most < 128<<10 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return from + n
}

// checkSteps checks that the markers of a batch have the numbers from next on, and returns
// the one after them.
func checkSteps(t *testing.T, b *tracefs.Batch, next int) int {
	t.Helper()
	for i := range b.Records {
		r := &b.Records[i]
		body, n := string(b.Text[r.Body:r.End]), 0
		if _, err := fmt.Sscanf(body, "tracing_mark_write: this is the marker of the number %d", &n); err != nil || n != next {
			t.Fatalf("%q (%v) in place of %d", body, err, next)
		}
		next++
	}
	return next
}

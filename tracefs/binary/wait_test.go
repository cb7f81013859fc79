package binary

import (
	"io"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// TestCanWait: the entries into calls that can wait, and calls that return, are marked as
// the text has them.
func TestCanWait(t *testing.T) {
	marked, others := 0, 0
	eachRaw(t, func(t *testing.T, _ string, dir *Dir) {
		source, b := dir.Source(Options{Events: true}, nil), new(tracefs.Batch)
		for err := error(nil); err == nil; {
			if err = source.Next(b); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			for i := range b.Records {
				r := &b.Records[i]
				if r.Kind != tracefs.KindEvent || r.Origin == 0 {
					continue
				}
				var e syscalls.Event
				want := syscalls.Parse(b.Text[r.Body:r.End], &e) && !e.Exit &&
					e.Call != syscalls.Other && e.Call != syscalls.RestartSyscall && e.Futex.Cmd.Waits()
				if got := r.Flags&tracefs.CanWait != 0; got != want {
					t.Fatalf("marked %v: %s", got, b.Text[r.Off:r.End])
				}
				if got, want := r.Flags&tracefs.Returns != 0, syscalls.Returns(b.Text[r.Body:r.End]); got != want {
					t.Fatalf("marked to return %v: %s", got, b.Text[r.Off:r.End])
				}
				if want {
					marked++
				} else {
					others++
				}
			}
		}
	})
	if marked < 1000 || others < 1000 {
		t.Errorf("only %d that can wait, and %d others", marked, others)
	}
}

package perf

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
)

// TestSamplerLeaves: what a CPU samples after its ring was read and before it goes offline is
// read before the ring is closed.
func TestSamplerLeaves(t *testing.T) {
	sys := t.TempDir()
	file := filepath.Join(sys, OnlineFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), unix.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	const size = 1 << 13
	ring := func(cpu int) *Ring { return RingOf(cpu, make([]byte, os.Getpagesize()+size)) }
	stays, leaves := ring(0), ring(1)
	s := &Sampler{rings: []*Ring{stays, leaves}, clock: unix.CLOCK_MONOTONIC, event: stackEvent, merge: newMerge(stackEvent.Layout())}
	s.hotplug = NewHotplug(sys, s.Now()-2*listAgain)
	listed := make(chan error)
	go func() {
		list, err := os.OpenFile(file, os.O_WRONLY, 0) // waits until the rings were read
		if err == nil {
			sample := stackRecord(runtime.GOARCH, 0, nil, 0, 0)
			binary.NativeEndian.PutUint64(sample[headerSize+8:], uint64(s.Now()))
			atomic.AddUint64(leaves.head, uint64(copy(leaves.data, sample))) // as the kernel does: after the data
			_, err = list.WriteString("0\n")
			err = errors.Join(err, list.Close())
		}
		listed <- err
	}()
	var samples int
	read := func() {
		s.Read(func(*StackSample) { samples++ }, func(l Loss) { t.Errorf("lost: %+v", l) })
	}
	read()
	if err := <-listed; err != nil {
		t.Fatal(err)
	}
	before := samples
	s.hotplug.checked = s.Now() + tracefs.Time(listAgain) // the list is not read again
	read()
	if before != 0 || samples != 1 || len(s.rings) != 1 || len(s.retired) != 0 {
		t.Errorf("%d and %d samples, %d rings, %d retired", before, samples, len(s.rings), len(s.retired))
	}
}

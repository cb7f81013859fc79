// Package raw reads the ring buffers of a tracing instance while it traces,
// without the kernel's making text of them (tracefs/instance opens them,
// tracefs/binary decodes them).
package raw

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs/binary"
	"ustack/tracefs/instance"
	"ustack/tracefs/ring"
)

// Options are how an instance is read.
type Options struct {
	binary.LiveOptions
	// Events are the traced events; others are not decoded.
	Events []instance.Event
	// Names has the names of tasks.
	Names binary.Names
	// Symbols are the kernel's.
	Symbols *binary.Symbols
	// Copy has the kernel copy the pages, also where they could be mapped.
	Copy bool
	// Room is how many bytes of memory may hold records that the reader has not come to
	// when the buffer fills, 0 for none. Grown, which may be nil, is called when it is
	// more than ever before, by another goroutine.
	Room  int64
	Grown func(bytes int64)
}

// Open begins to read the ring buffers of an instance, whose clock must be mono. It
// must be their only reader.
func Open(in *instance.Instance, opt Options) (*binary.Live, error) {
	clock, err := in.Clock()
	if err != nil {
		return nil, err
	}
	if clock != "mono" {
		return nil, fmt.Errorf("reading the ring buffer of an instance with the clock %s: it must be mono", clock)
	}
	kb, _ := in.BufferKB() // 0 for unknown
	var patterns []string
	for _, e := range opt.Events {
		patterns = append(patterns, e.System+"/"+e.Name)
	}
	k, err := binary.ReadMeta(in.Root().FS(), in.FS(), patterns...)
	if err != nil {
		return nil, fmt.Errorf("reading how the ring buffer is laid out: %w", err)
	}
	k.Names, k.Symbols = opt.Names, opt.Symbols
	k.Comms = nil // of whatever was traced before, perhaps long ago
	k.Release = kernelRelease()
	raw, err := in.RawPipe(instance.RawOptions{Subbuf: subbufOf(k), Copy: opt.Copy})
	if err != nil {
		return nil, err
	}
	if usual := pace(kb); opt.Pace == 0 || opt.Pace > usual {
		opt.Pace = usual
	}
	r, err := newRings(raw)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	if opt.Room <= 0 || kb == 0 {
		return binary.NewLive(k, r, opt.LiveOptions), nil
	}
	layout := k.Layout
	layout.Size = subbufOf(k)
	return binary.NewLive(k, binary.Grow(r, growOptions(raw, layout, kb, &opt)), opt.LiveOptions), nil
}

// growOptions returns how rings of so many KiB for each CPU grow: a buffer is emptied when an
// eighth of it is in use and the reader has not come to its end for as long as a CPU needs to
// fill a fifth.
func growOptions(raw *instance.RawPipe, layout ring.Layout, kb int, opt *Options) binary.GrowOptions {
	const part, kib = 8, 1 << 10
	grown := opt.Grown
	if grown == nil {
		grown = func(int64) {}
	}
	return binary.GrowOptions{
		Layout: layout, Most: opt.Room, Every: 2 * pace(kb), Grown: grown,
		Filling: func(cpu int32) bool {
			n, err := raw.Filled(cpu)
			return err == nil && n >= uint64(kb)*kib/part // a CPU that is off has nothing
		},
	}
}

// kernelRelease returns the release of the running kernel, "" if unknown.
func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// pace returns how long records may gather in a buffer of so many KiB for each
// CPU: a tenth of the time in which it is full at 100 MB/s, more than any CPU
// writes.
func pace(kb int) time.Duration {
	const (
		perKB = time.Microsecond
		least = 50 * time.Microsecond
		most  = 8 * time.Millisecond
	)
	return min(max(time.Duration(kb)*perKB, least), most)
}

// rings are the buffers of an instance with the clock mono, which is Go's own.
type rings struct {
	*instance.RawPipe
	began time.Time
	at    uint64 // CLOCK_MONOTONIC then
}

// newRings reads the two clocks in this order, so that Now is late, if anything.
func newRings(raw *instance.RawPipe) (*rings, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return nil, fmt.Errorf("reading the clock: %w", err)
	}
	return &rings{RawPipe: raw, at: uint64(ts.Nano()), began: time.Now()}, nil
}

// Now implements binary.Rings.
func (r *rings) Now() uint64 { return r.at + uint64(time.Since(r.began)) }

package unwind

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// cpu is the time that this thread has run.
func cpu(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}

// BenchmarkWarm unwinds stacks whose places are all known.
func BenchmarkWarm(b *testing.B) {
	u := New(0)
	defer u.Close()
	inputs := benchInputs(b, u)
	var frames []Frame
	n := 0
	for _, in := range inputs {
		frames, _ = u.Unwind(in, frames[:0])
	}
	b.ReportAllocs()
	runtime.LockOSThread()
	from := cpu(b)
	for b.Loop() {
		for _, in := range inputs {
			frames, _ = u.Unwind(in, frames[:0])
			n += len(frames)
		}
	}
	b.ReportMetric(float64(cpu(b)-from)/float64(n), "cpu-ns/frame")
}

// BenchmarkCold unwinds them with open tables, but no place is known: what that
// costs more for each place.
func BenchmarkCold(b *testing.B) {
	u := New(0)
	defer u.Close()
	inputs := benchInputs(b, u)
	var frames []Frame
	n, took := 0, int64(0)
	for _, in := range inputs { // open the files
		frames, _ = u.Unwind(in, frames[:0])
	}
	runtime.LockOSThread()
	for b.Loop() {
		for _, in := range inputs {
			for _, f := range u.files {
				clear(f.steps)
			}
			clear(u.hot[:])
			from := cpu(b)
			frames, _ = u.Unwind(in, frames[:0])
			then := cpu(b)
			frames, _ = u.Unwind(in, frames[:0]) // what would have been without
			took += then - from - (cpu(b) - then)
			n += stepsOf(u)
		}
	}
	b.ReportMetric(float64(took)/float64(n), "cpu-ns/place")
	b.ReportMetric(float64(u.Memory()), "bytes")
}

func stepsOf(u *Unwinder) (n int) {
	for _, f := range u.files {
		n += len(f.steps)
	}
	return n
}

// benchInputs are stacks of testdata/tiny, or those of a file that
// testdata/stacks.py has written, USTACK_STACKS.
func benchInputs(b *testing.B, u *Unwinder) (inputs []*Input) {
	name := os.Getenv("USTACK_STACKS")
	if name == "" {
		_, s, space := openTiny(b, u, "amd64")
		for one, ok := s.next(); ok; one, ok = s.next() {
			inputs = append(inputs, one.input(elf.EM_X86_64, space))
		}
		return inputs
	}
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var space areas
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return inputs
		}
		var rec record
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&rec); err != nil {
			b.Fatal(err)
		}
		if rec.Maps != "" {
			space = readMaps(b, u, rec.Maps, rec.VDSO)
			continue
		}
		inputs = append(inputs, rec.input(space))
	}
}

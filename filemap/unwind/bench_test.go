package unwind

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"testing"
)

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
	for b.Loop() {
		for _, in := range inputs {
			frames, _ = u.Unwind(in, frames[:0])
			n += len(frames)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/frame")
}

// BenchmarkCold unwinds them with open tables, but no place is known.
func BenchmarkCold(b *testing.B) {
	u := New(0)
	defer u.Close()
	inputs := benchInputs(b, u)
	var frames []Frame
	n := 0
	for b.Loop() {
		b.StopTimer()
		for _, f := range u.files {
			if f.loaded {
				clear(f.steps)
			}
		}
		b.StartTimer()
		for _, in := range inputs {
			before := stepsOf(u)
			frames, _ = u.Unwind(in, frames[:0])
			n += stepsOf(u) - before
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/place")
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

//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// TestCopies: each long wait has the registers of its thread and as much of its stack as was asked
// for.
func TestCopies(t *testing.T) {
	const asked = 1 << 10
	lookAt(t, Options{Copy: asked}, time.Millisecond, "2 20 2ms", func(s *Source, _ int) {
		var w Wait
		n := 0
		for ; ; n++ {
			if err := s.Next(&w, time.Now()); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			c := w.Copy
			if c == nil || c.Asked != asked || len(c.Stack) != asked {
				t.Fatalf("copy %+v", c)
			}
			if w.Code == 0 || len(w.Stack) == 0 || w.Stack[0].IsAddress && w.Stack[0].Number != c.PC || w.Stack[0].Number&0xfff != c.PC&0xfff {
				t.Errorf("%d pages of code, frames %+v, copy at %#x", w.Code, w.Stack, c.PC)
			}
			set := 0
			c.Registers(func(_ uint8, v uint64) {
				if v == c.SP || v == c.PC {
					set++
				}
			})
			if set < 2 {
				t.Error("no stack pointer and program counter among the registers")
			}
		}
		if n < 20 {
			t.Errorf("%d waits", n)
		}
	})
}

// TestCopiesSize: a process has an amount of its own, and no room for a copy costs the copy, not the
// wait.
func TestCopiesSize(t *testing.T) {
	needBPF(t)
	s, err := Open(Options{Copy: 512, Filtered: true, MinWait: time.Millisecond, Ring: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing depends on it
	own := os.Getpid()
	if err := errors.Join(s.Add(own, Many), s.Start(), s.Copy(int32(own), 24<<10)); err != nil {
		t.Fatal(err)
	}
	word := uint32(2)
	const waits = 6
	for range waits {
		futexCall(&word, private, 2, 2*time.Millisecond)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	var w Wait
	with, without := 0, uint64(0)
	for {
		if err := s.Next(&w, time.Now()); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if w.Copy == nil {
			without++
			continue
		}
		with++
		if w.Copy.Asked != 24<<10 || len(w.Copy.Stack) > 24<<10 {
			t.Errorf("%d of %d bytes", len(w.Copy.Stack), w.Copy.Asked)
		}
	}
	l, err := s.Loss()
	if err != nil {
		t.Fatal(err)
	}
	if with == 0 || without == 0 || l.Copies != without || l.Records > 0 {
		t.Errorf("%d waits with a copy, %d without, %+v", with, without, l)
	}
}

//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCopies: each long wait has the registers of its thread and as much of its stack as was asked
// for, or as there is: threads of the Go runtime can wait near the end of theirs.
func TestCopies(t *testing.T) {
	const asked = 1 << 10
	lookAt(t, Options{Copy: asked}, time.Millisecond, "2 20 2ms", func(s *Source, _ int) {
		var w Wait
		n, whole := 0, 0
		for ; ; n++ {
			if err := s.Next(&w, time.Now()); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			c := w.Copy
			if c == nil || c.Asked != asked || len(c.Stack) > asked {
				t.Fatalf("copy %+v", c)
			}
			if len(c.Stack) == asked {
				whole++
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
		if n < 20 || whole < 20 {
			t.Errorf("%d waits, %d with all that was asked for", n, whole)
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
	var l Loss
	const most = 64 // stacks can be shorter than what is copied of them
	for n := 0; n < most && l.Copies == 0; n++ {
		futexCall(&word, private, 2, 2*time.Millisecond)
		if l, err = s.Loss(); err != nil {
			t.Fatal(err)
		}
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
	if l, err = s.Loss(); err != nil {
		t.Fatal(err)
	}
	if with == 0 || without == 0 || l.Copies != without || l.Records > 0 {
		t.Errorf("%d waits with a copy, %d without, %+v", with, without, l)
	}
}

// TestKnow: a stack is recognized at its place if all of its words have their values, and at no other
// place.
func TestKnow(t *testing.T) {
	needBPF(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := Open(Options{Copy: 1 << 10, Filtered: true, MinWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing depends on it
	if err := errors.Join(s.Add(os.Getpid(), Many), s.Start()); err != nil {
		t.Fatal(err)
	}
	word := uint32(2)
	wait := func() (w Wait) {
		t.Helper()
		futexCall(&word, private, 2, 2*time.Millisecond)
		for w.TID != int32(unix.Gettid()) {
			if err := s.Next(&w, time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		return w
	}
	const id, other, looks = 7, 8, 8
	var at Place
	var words []Word
	for i := range looks + 5 {
		w := wait() // always at one place
		if recognized := i == looks || i == looks+3; recognized != (w.Copy == nil) {
			t.Fatalf("%d: recognized as %d", i, w.Known)
		}
		know := func(id uint64, at Place, words []Word) {
			t.Helper()
			if ok, err := s.Know(at, id, words); !ok || err != nil {
				t.Fatalf("%v, %v", ok, err)
			}
		}
		switch {
		case i == 0:
			at = Place{w.Copy.PC, w.Copy.SP, w.Memory, w.Born}
			for k := 0; k+8 <= len(w.Copy.Stack); k += 8 {
				words = append(words, Word{uint32(k), binary.NativeEndian.Uint64(w.Copy.Stack[k:])})
			}
		case i < looks:
			words = slices.DeleteFunc(words, func(x Word) bool { return x.Value != binary.NativeEndian.Uint64(w.Copy.Stack[x.At:]) })
			if at != (Place{w.Copy.PC, w.Copy.SP, w.Memory, w.Born}) || len(words) < 4 {
				t.Skip("this thread does not wait at one place")
			}
			if i == looks-1 {
				words = words[max(len(words)-20, 0):]
				know(id, at, words)
			}
		case i == looks:
			if w.Known != id || len(w.Stack) == 0 {
				t.Errorf("%+v", w)
			}
			changed := slices.Clone(words)
			changed[3].Value++
			know(other, at, changed)
		case i == looks+1: // with another word
			if err := s.Unknow(at); err != nil {
				t.Error(err)
			}
			elsewhere := at
			elsewhere.SP += 8
			know(id, elsewhere, words)
		case i == looks+2: // at another place
			know(other, at, words)
		case i == looks+3:
			if w.Known != other {
				t.Errorf("%d", w.Known)
			}
			if err := s.Unknow(at); err != nil {
				t.Error(err)
			}
		}
	}
	if ok, err := s.Know(at, id, make([]Word, MaxWords+1)); ok || err != nil {
		t.Errorf("too many words: %v, %v", ok, err)
	}
}

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
	"unsafe"

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
			set, regs := 0, make(map[uint8]uint64)
			c.Registers(func(n uint8, v uint64) {
				set++
				regs[n] = v
			})
			at := pointers[runtime.GOARCH]
			if regs[at[0]] != c.SP || regs[at[1]] != c.PC || set < 10 {
				t.Errorf("stack pointer and program counter %#x, %#x, registers %#x", c.SP, c.PC, regs)
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

// pointers are the numbers of the stack pointer and of the program counter in DWARF, by GOARCH.
var pointers = map[string][2]uint8{"amd64": {7, 16}, "arm64": {31, 32}}

// TestCopiesLost: each long wait that is not sent is counted once, and so is each that is sent without
// its copy, where the buffer has room for few.
func TestCopiesLost(t *testing.T) {
	l := look(t, Options{Copy: 1 << 10, Ring: os.Getpagesize()}, time.Millisecond, "2 20 2ms")
	without, longs := uint64(0), l.other.Longs
	for i := range l.waits {
		if l.waits[i].Copy == nil {
			without++
		}
	}
	for _, s := range l.sums {
		longs += s.Longs
	}
	if l.loss.Records == 0 || l.loss.Records+uint64(len(l.waits)) != longs || l.loss.Copies+l.loss.Pages != without {
		t.Errorf("%d of %d long waits were sent, %d of them without a copy: %+v", len(l.waits), longs, without, l.loss)
	}
}

// TestCopiesSizes: more processes than there is room for can have a size: those that are not looked up
// make room.
func TestCopiesSizes(t *testing.T) {
	needBPF(t)
	s, err := Open(Options{Copy: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing depends on it
	for i := range int32(6000) {
		if err := s.Copy(1000000+i, 1<<10); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// waitOn waits at a futex for a time, with the stack pointer somewhere else meanwhile.
func waitOn(t *testing.T, sp uintptr, word *uint32, timeout *unix.Timespec) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("code of amd64")
	}
	var code []byte
	number := func(op []byte, v uint64) {
		code = binary.LittleEndian.AppendUint64(append(code, op...), v)
	}
	code = append(code, 0x53, 0x48, 0x89, 0xe3)                          // push rbx; mov rbx, rsp
	number([]byte{0x48, 0xbc}, uint64(sp))                               // mov rsp
	number([]byte{0x48, 0xbf}, uint64(uintptr(unsafe.Pointer(word))))    // mov rdi
	number([]byte{0x48, 0xbe}, private)                                  // mov rsi
	number([]byte{0x48, 0xba}, uint64(*word))                            // mov rdx
	number([]byte{0x49, 0xba}, uint64(uintptr(unsafe.Pointer(timeout)))) // mov r10
	number([]byte{0x48, 0xb8}, unix.SYS_FUTEX)                           // mov rax
	code = append(code, 0x0f, 0x05, 0x48, 0x89, 0xdc, 0x5b, 0xc3)        // syscall; mov rsp, rbx; pop rbx; ret
	page, err := unix.Mmap(-1, 0, len(code), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	copy(page, code)
	entry := &page[0]
	value := &entry // what a Go function's value points to
	(*(*func())(unsafe.Pointer(&value)))()
	runtime.KeepAlive(page)
}

// TestCopiesPages: a wait whose stack is not in memory is counted as that.
func TestCopiesPages(t *testing.T) {
	needBPF(t)
	s, err := Open(Options{Copy: 1 << 10, Filtered: true, MinWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing depends on it
	if err := errors.Join(s.Add(os.Getpid(), Many), s.Start()); err != nil {
		t.Fatal(err)
	}
	size := 4 * os.Getpagesize()
	stack, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	// In the first page, as those of Go move. The third one is not in memory yet.
	word, timeout := (*uint32)(unsafe.Pointer(&stack[0])), (*unix.Timespec)(unsafe.Pointer(&stack[64]))
	*word, *timeout = 2, unix.NsecToTimespec(2e6)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var w Wait
	for range 100 { // a signal of Go's runtime ends a wait
		waitOn(t, uintptr(unsafe.Pointer(&stack[size/2])), word, timeout)
		for err == nil && w.Addr != uint64(uintptr(unsafe.Pointer(word))) {
			err = s.Next(&w, time.Now())
		}
		if err != io.EOF {
			break
		}
		err = nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if l, err := s.Loss(); err != nil || w.Addr == 0 || w.Copy != nil || l.Pages == 0 || l.Copies > 0 {
		t.Errorf("%+v, %+v, %v", w, l, err)
	}
}

// TestKnow: a stack is recognized at its place if all of its registers and words have their values and
// as much is mapped by as many changes, and at no other place.
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
	var regs []Register
	what := new(Known)
	for i := range looks + 8 {
		w := wait() // always at one place
		if recognized := i == looks || i == looks+3; recognized != (w.Copy == nil) {
			t.Fatalf("%d: recognized as %d", i, w.Known)
		}
		*what = Known{Code: w.Code, Changes: w.Changes, Registers: slices.Clone(regs)}
		know := func(id uint64, at Place, words []Word) {
			t.Helper()
			what.Words = words
			if ok, err := s.Know(at, id, what); !ok || err != nil {
				t.Fatalf("%v, %v", ok, err)
			}
		}
		same := func(r Register) bool {
			is := false
			w.Copy.Registers(func(n uint8, v uint64) { is = is || r == Register{n, v} })
			return is
		}
		switch {
		case i == 0:
			at = Place{w.Copy.PC, w.Copy.SP, w.Memory, w.Born}
			w.Copy.Registers(func(n uint8, v uint64) {
				if slices.Contains(layouts[runtime.GOARCH].kept, n) {
					regs = append(regs, Register{n, v})
				}
			})
			for k := 0; k+8 <= len(w.Copy.Stack); k += 8 {
				words = append(words, Word{uint32(k), binary.NativeEndian.Uint64(w.Copy.Stack[k:])})
			}
		case i < looks:
			words = slices.DeleteFunc(words, func(x Word) bool { return x.Value != binary.NativeEndian.Uint64(w.Copy.Stack[x.At:]) })
			regs = slices.DeleteFunc(regs, func(r Register) bool { return !same(r) })
			what.Registers = slices.Clone(regs)
			if at != (Place{w.Copy.PC, w.Copy.SP, w.Memory, w.Born}) || len(words) < 4 || len(regs) == 0 {
				t.Skip("this thread does not wait at one place")
			}
			if i == looks-1 {
				words = words[:min(len(words), 20)] // not of this function, which goes on with others
				know(id, at, words)
			}
		case i == looks:
			if w.Known != id || len(w.Stack) != 1 || !w.Cut {
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
			what.Registers[len(regs)-1].Value++
			know(other, at, words)
		case i == looks+4: // with another register
			what.Code++
			know(other, at, words)
		case i == looks+5: // with more code
			what.Changes++
			know(other, at, words)
		case i == looks+6: // after another change
			if err := s.Unknow(at); err != nil {
				t.Error(err)
			}
		}
	}
	for name, what := range map[string]*Known{
		"too many words": {Words: make([]Word, MaxWords+1)}, "a register that calls change": {Registers: []Register{{Number: 1}}}, "one twice": {Registers: []Register{regs[0], regs[0]}},
	} {
		if ok, err := s.Know(at, id, what); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

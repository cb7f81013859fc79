package bpffutex

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"ustack/tracefs/syscalls"
)

// recorded returns the bytes in a file of testdata, hexadecimal, by the word before them.
func recorded(t testing.TB) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile("testdata/recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for line := range strings.Lines(string(b)) {
		word, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || word == "#" {
			continue
		}
		if all[word], err = hex.DecodeString(text); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestDecodeRecorded: what a kernel wrote for a program whose waits are known (the comment in
// the file says which).
func TestDecodeRecorded(t *testing.T) {
	all := recorded(t)
	var w Wait
	if err := w.decode(all["record"]); err != nil {
		t.Fatal(err)
	}
	if string(w.Comm) != "w" || w.Cmd != syscalls.Wait || w.Shared || w.Val != 2 || w.Result != 0 || w.Err != 0 || w.Cut {
		t.Errorf("%+v", w)
	}
	if d := w.To - w.From; d < 10e6 || d > 100e6 {
		t.Errorf("the wait took %d ns", d)
	}
	if w.TID == w.TGID || w.Memory == 0 || w.Born == 0 {
		t.Errorf("thread %d of process %d, memory %#x, born %d", w.TID, w.TGID, w.Memory, w.Born)
	}
	const program, offset = 1, 0x11ea // after the call of pthread_mutex_lock in hold
	if len(w.Stack) != 3 || w.Stack[program].IsAddress || w.Stack[program].Number != offset || w.Stack[0].BuildID != w.Stack[2].BuildID || w.Stack[0].BuildID == w.Stack[1].BuildID {
		t.Errorf("stack %+v", w.Stack)
	}

	f, err := decodeKey(all["key"])
	if err != nil || f != w.Futex {
		t.Errorf("futex %+v, %v, want %+v", f, err, w.Futex)
	}
	var s Sum
	err = s.decode(all["sum"])
	if err != nil {
		t.Fatal(err)
	}
	const waits = 59
	if s.Results != (Results{Woken: waits}) || s.Values != (Values{Two: waits}) || s.Slept != waits || s.Longs != waits || string(s.Comm) != "w" || s.Seen != (Seen{Plain: true, NoTimeout: true}) {
		t.Errorf("sum %+v", s)
	}
	var n uint64
	for _, c := range s.Buckets {
		n += c
	}
	if n != waits {
		t.Errorf("%d in the buckets, want %d", n, waits)
	}
}

// TestDecodeWrong: what the programs do not write is an error.
func TestDecodeWrong(t *testing.T) {
	good := recorded(t)["record"]
	change := func(at int, v uint32) []byte {
		b := append([]byte(nil), good...)
		binary.NativeEndian.PutUint32(b[at:], v)
		return b
	}
	for name, b := range map[string][]byte{
		"short": good[:recordHead-1], "no stack": good[:recordHead], "stack too large": change(60, uint32(len(good))), "odd stack": change(60, entrySize-1),
		"status": change(recordHead, 7), "process": change(40, 0), "thread": change(44, 1<<31), "time": change(4, 1<<31),
	} {
		var w Wait
		if err := w.decode(b); !errors.Is(err, errFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	const efault = 14
	var w Wait
	if err := w.decode(change(60, uint32(1<<32-efault))); err != nil || w.Err != -efault || len(w.Stack) > 0 {
		t.Errorf("without a stack: %+v, %v", w, err)
	}
	for _, n := range []int{0, keySize - 1, keySize + 1} {
		if _, err := decodeKey(make([]byte, n)); !errors.Is(err, errFormat) {
			t.Errorf("key of %d bytes: %v", n, err)
		}
		if err := new(Sum).decode(make([]byte, n)); !errors.Is(err, errFormat) {
			t.Errorf("sum of %d bytes: %v", n, err)
		}
		if _, err := decodeWaiting(make([]byte, 4), make([]byte, n)); !errors.Is(err, errFormat) {
			t.Errorf("wait of %d bytes: %v", n, err)
		}
	}
}

// TestDecodeWaiting: an open wait, one that a signal broke off, and one for several futexes.
func TestDecodeWaiting(t *testing.T) {
	key := binary.NativeEndian.AppendUint32(nil, 42)
	b := make([]byte, begunSize)
	for at, v := range map[int]uint64{0: 1000, 8: 0xabc0, 16: 7, 24: 5} {
		binary.NativeEndian.PutUint64(b[at:], v)
	}
	for at, v := range map[int]uint32{32: uint32(syscalls.WaitBitset) | 0x20000 | 0x10000 | 0x100, 36: 3, 40: 41} {
		binary.NativeEndian.PutUint32(b[at:], v)
	}
	want := Waiting{Futex: Futex{Addr: 0xabc0, Memory: 7, Born: 5, TGID: 41, Shared: true}, TID: 42, From: 1000, Val: 3, Cmd: syscalls.WaitBitset, Timeout: true, Broken: true}
	if w, err := decodeWaiting(key, b); err != nil || w != want {
		t.Errorf("%+v, %v, want %+v", w, err, want)
	}
}

// FuzzDecode: whatever comes is decoded within bounds, or an error.
func FuzzDecode(f *testing.F) {
	for _, b := range recorded(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var w Wait
		if err := w.decode(b); err == nil {
			if w.To < w.From || w.TID <= 0 || w.TGID <= 0 || len(w.Stack) > maxFrames || w.Err > 0 || w.Err < 0 && len(w.Stack) > 0 || len(w.Comm) > 16 {
				t.Errorf("%+v", w)
			}
			again := Wait{Stack: make([]Frame, 0, maxFrames), Comm: []byte("another")}
			if err := again.decode(b); err != nil || !reflect.DeepEqual(again.Futex, w.Futex) || len(again.Stack) != len(w.Stack) {
				t.Errorf("decoded again: %+v, %v, first %+v", again, err, w)
			}
		}
		var s Sum
		if err := s.decode(b); err == nil && (s.Time < 0 || len(s.Comm) > 16) {
			t.Errorf("%+v", s)
		}
		if k, err := decodeKey(b); err == nil && k == (Futex{}) && len(b) != keySize {
			t.Errorf("a key of %d bytes", len(b))
		}
	})
}

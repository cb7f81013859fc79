//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"ustack/tracefs"
)

// TestLiveManyFutexes: more futexes than one system call reads are read, each once, with all calls.
func TestLiveManyFutexes(t *testing.T) {
	const addresses = 3*batch + 1
	l := look(t, Options{}, time.Hour, fmt.Sprintf("%d 1 %v", addresses, 10*time.Microsecond))
	if len(l.log) != addresses || l.loss.Waits+l.loss.Apart > 0 {
		t.Fatalf("%d futexes in the log, %+v", len(l.log), l.loss)
	}
	var got, want uint64
	for addr, c := range l.log {
		want += c.timedOut + c.changed + c.failed + c.wakes
		s := l.sums[addr]
		if s == nil {
			t.Errorf("no sum of %#x", addr)
			continue
		}
		if s.Results.TimedOut > c.timedOut || s.Results.Changed > c.changed || s.Results.Failed > c.failed || s.Wakes > c.wakes {
			t.Errorf("%#x: %+v, the victim has %+v", addr, s, c)
		}
		got += s.all() + s.Wakes
	}
	if got+l.loss.Missed < want {
		t.Errorf("%d calls, want %d (%d missed)", got, want, l.loss.Missed)
	}
}

// TestLiveBegunExec: a thread that executes a program leaves no place taken by its old number.
func TestLiveBegunExec(t *testing.T) {
	var left []uint32
	lookAt(t, Options{}, time.Hour, becomes+"1 3 1ms", func(s *Source, pid int) {
		var tid uint32
		var value []byte
		each := s.programs.Maps[programMapBegun].Iterate()
		for each.Next(&tid, &value) {
			if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(int(tid)))); os.IsNotExist(err) {
				left = append(left, tid)
			}
		}
		if err := each.Err(); err != nil {
			t.Fatal(err)
		}
	})
	if len(left) > 0 {
		t.Errorf("places are taken by threads %v, which are not there", left)
	}
}

// TestSettled: an open wait that is read while its thread ends it and begins another one is one of
// both, and has nothing of the other.
func TestSettled(t *testing.T) {
	element := func(at, addr uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, at), addr)
	}
	first, second, torn, none := element(1, 0x100), element(2, 0x200), element(1, 0x200), element(0, 0x200)
	for name, test := range map[string]struct {
		reads [][]byte
		from  tracefs.Time
		addr  uint64
	}{
		"one wait":             {reads: [][]byte{first, first}, from: 1, addr: 0x100},
		"parts of two":         {reads: [][]byte{torn, second, second}, from: 2, addr: 0x200},
		"another one":          {reads: [][]byte{first, second, second}, from: 2, addr: 0x200},
		"it ends":              {reads: [][]byte{first, none}},
		"it had ended":         {reads: [][]byte{none}},
		"its thread ends":      {reads: [][]byte{torn, nil}},
		"it never is the same": {reads: [][]byte{first, second, first, second, first, second, first, second, first, second, first, second, first, second, first, second, first}},
	} {
		at := 0
		read := func(any) ([]byte, error) {
			if at++; at == len(test.reads) {
				return nil, errors.New("read too often")
			}
			return padded(test.reads[at]), nil
		}
		w, err := settled(make([]byte, 4), padded(test.reads[0]), read)
		if err != nil || w.From != test.from || w.From != 0 && w.Addr != test.addr || at != len(test.reads)-1 {
			t.Errorf("%s: %+v, %v after %d reads", name, w, err, at+1)
		}
	}
}

// padded returns an element of the map begun by its first bytes, nil if there is none.
func padded(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(bytes.Clone(b), make([]byte, begunSize-len(b))...)
}

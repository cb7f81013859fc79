package perf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/perf"
	"ustack/tracefs/perf/perftest"
)

var layout perf.Layout

const headerSize, trailerSize = 8, 24

// rawMap is a mapping without build ID.
func rawMap(pid, tid int, addr, length, pgoff uint64, prot, flags uint32, name string, t uint64) []byte {
	return perftest.Record(unix.PERF_RECORD_MMAP2, unix.PERF_RECORD_MISC_USER, t, 1, perftest.IDs(pid, tid), perftest.U64(addr, length, pgoff),
		perftest.U32(8, 1), perftest.U64(77, 3), perftest.U32(prot, flags), perftest.Name(name))
}

func rawTask(kind uint32, pid, ppid, tid, ptid int, t uint64, cpu uint32) []byte {
	return perftest.Record(kind, 0, t, cpu, perftest.IDs(pid, ppid, tid, ptid), perftest.U64(t))
}

func rawComm(pid, tid int, misc uint16, name string, t uint64, cpu uint32) []byte {
	return perftest.Record(unix.PERF_RECORD_COMM, misc, t, cpu, perftest.IDs(pid, tid), perftest.Name(name))
}

const rx = unix.PROT_READ | unix.PROT_EXEC

func TestDecode(t *testing.T) {
	var r perf.Record
	b := rawMap(10, 11, 0x400000, 0x2000, 0x1000, rx, unix.MAP_PRIVATE, "/usr/bin/with blank", 1234)
	if n, err := layout.Decode(append(b, 1, 2, 3), &r); err != nil || n != len(b) {
		t.Fatal(n, err)
	}
	if r.PID != 10 || r.TID != 11 || r.Addr != 0x400000 || r.Len != 0x2000 || r.Offset != 0x1000 || r.Time != 1234 || r.CPU != 1 ||
		string(r.Name) != "/usr/bin/with blank" || r.Major != 8 || r.Minor != 1 || r.Inode != 77 || r.InodeGeneration != 3 || r.BuildID != nil {
		t.Errorf("a mapping is %+v", r)
	}

	id := [20]byte{1, 2, 3, 19: 20}
	b = perftest.Record(unix.PERF_RECORD_MMAP2, unix.PERF_RECORD_MISC_MMAP_BUILD_ID, 5, 0, perftest.IDs(1, 2), perftest.U64(0x1000, 0x1000, 0),
		[]byte{16, 3: 0}, id[:], perftest.U32(rx, unix.MAP_SHARED), perftest.Name("/a"))
	if _, err := layout.Decode(b, &r); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(r.BuildID, id[:16]) || r.Inode != 0 || r.Major != 0 || r.Flags != unix.MAP_SHARED || string(r.Name) != "/a" {
		t.Errorf("a mapping with a build ID is %+v", r)
	}

	b = rawComm(5, 6, unix.PERF_RECORD_MISC_COMM_EXEC, "name", 9, 3)
	if _, err := layout.Decode(b, &r); err != nil || r.PID != 5 || r.TID != 6 || string(r.Name) != "name" || !r.Exec() || r.Time != 9 || r.CPU != 3 {
		t.Errorf("an exec is %+v, %v", r, err)
	}
	b = rawTask(unix.PERF_RECORD_FORK, 5, 5, 7, 5, 10, 0)
	if _, err := layout.Decode(b, &r); err != nil || r.PID != 5 || r.TID != 7 || r.ParentPID != 5 || r.ParentTID != 5 || !r.Thread() || r.Exec() {
		t.Errorf("a thread is %+v, %v", r, err)
	}
	b = rawTask(unix.PERF_RECORD_FORK, 8, 5, 8, 5, 10, 0)
	if _, err := layout.Decode(b, &r); err != nil || r.PID != 8 || r.TID != 8 || r.ParentPID != 5 || r.Thread() {
		t.Errorf("a fork is %+v, %v", r, err)
	}
	b = perftest.Record(unix.PERF_RECORD_SAMPLE, 0, 12, 1)
	binary.NativeEndian.PutUint32(b[headerSize:], 5)
	binary.NativeEndian.PutUint32(b[headerSize+4:], 6)
	if _, err := layout.Decode(b, &r); err != nil || r.PID != 5 || r.TID != 6 || r.Time != 12 || r.CPU != 1 {
		t.Errorf("a sample is %+v, %v", r, err)
	}
	b = perftest.Record(unix.PERF_RECORD_LOST, 0, 11, 0, perftest.U64(99, 42))
	if _, err := layout.Decode(b, &r); err != nil || r.Lost != 42 {
		t.Errorf("a loss is %+v, %v", r, err)
	}
	b = perftest.Record(unix.PERF_RECORD_LOST_SAMPLES, 0, 11, 0, perftest.U64(43))
	if _, err := layout.Decode(b, &r); err != nil || r.Lost != 43 {
		t.Errorf("a loss is %+v, %v", r, err)
	}
	b = rawTask(unix.PERF_RECORD_EXIT, -1, 0, -1, 0, 10, 0)
	if _, err := layout.Decode(b, &r); err != nil || r.PID != -1 {
		t.Errorf("an exit elsewhere is %+v, %v", r, err)
	}
}

// TestDecodeBad: bytes that are no record are an error that says why.
func TestDecodeBad(t *testing.T) {
	good := rawMap(10, 11, 0x400000, 0x2000, 0x1000, rx, 2, "/a", 1234)
	edit := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	short := func(kind uint32, body ...[]byte) []byte { return perftest.Record(kind, 0, 1, 0, body...) }
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":           {nil, "header is cut off"},
		"half a header":   {good[:7], "header is cut off"},
		"cut off":         {good[:len(good)-8], "it is cut off"},
		"size 0":          {edit(6, 0, 0), "impossible size"},
		"size 9":          {edit(6, 9, 0), "impossible size"},
		"header only":     {edit(6, 8, 0), "no time"},
		"negative time":   {edit(len(good)-9, 0xff), "time is impossible"},
		"addresses wrap":  {edit(16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "impossible addresses"},
		"no length":       {edit(24, 0, 0, 0), "impossible addresses"},
		"long build ID":   {append(edit(4, 0, 0x40)[:40], append([]byte{21}, good[41:]...)...), "build ID is too long"},
		"short mapping":   {short(unix.PERF_RECORD_MMAP2, perftest.U64(1)), "mapping is too short"},
		"short name":      {short(unix.PERF_RECORD_COMM), "name is too short"},
		"long sample":     {append([]byte{9, 0, 0, 0, 0, 0, 40, 0}, append(make([]byte, trailerSize), 5, 0, 0, 0, 0, 0, 0, 0)...), "sample is cut off"},
		"short fork":      {short(unix.PERF_RECORD_FORK, perftest.U64(1)), "fork or exit is too short"},
		"loss of nothing": {short(unix.PERF_RECORD_LOST, perftest.U64(1)), "loss without a number"},
		"no samples lost": {short(unix.PERF_RECORD_LOST_SAMPLES), "loss without a number"},
	} {
		var r perf.Record
		if _, err := layout.Decode(c.b, &r); !errors.Is(err, perf.ErrRecord) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// FuzzDecode: no bytes do harm, and a record stays within its bytes.
func FuzzDecode(f *testing.F) {
	f.Add(rawMap(10, 11, 0x400000, 0x2000, 0x1000, rx, 2, "/a", 1234))
	f.Add(rawComm(5, 6, unix.PERF_RECORD_MISC_COMM_EXEC, "name", 9, 3))
	f.Add(rawTask(unix.PERF_RECORD_FORK, 5, 5, 7, 5, 10, 0))
	f.Add(perftest.Record(unix.PERF_RECORD_LOST, 0, 11, 0, perftest.U64(99, 42)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			var r perf.Record
			n, err := layout.Decode(b, &r)
			if err != nil {
				if !errors.Is(err, perf.ErrRecord) {
					t.Errorf("error %v", err)
				}
				return
			}
			if n < headerSize+trailerSize || n > len(b) || len(r.Name) > n || r.Time < 0 || r.Addr+r.Len < r.Addr {
				t.Errorf("%d of %d bytes: %+v", n, len(b), r)
			}
			b = b[n:]
		}
	})
}

// TestRing: what goes in comes out, however it wraps.
func TestRing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	r := perftest.NewRing(0, 256)
	r.Skip(1<<64 - 1000) // the counters wrap too
	var in, out []byte
	for range 10000 {
		b := make([]byte, 8*(1+rnd.IntN(12)))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		if r.Write(b) {
			in = append(in, b...)
		}
		if rnd.IntN(3) == 0 {
			out, _ = r.Read(out)
		}
	}
	out, _ = r.Read(out)
	if !bytes.Equal(in, out) {
		t.Error("a ring gives back what was not written")
	}
	r.Overrun(1000) // more than it has
	if b, _ := r.Read(nil); len(b) != 0 || r.Unread() != 0 {
		t.Errorf("an overrun ring gives %d bytes", len(b))
	}
}

package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/shelltest"
	"ustack/tracefs/bpfmap"
	"ustack/tracefs/bpfmap/bpfmaptest"
	"ustack/tracefs/stackmap"
)

// TestLiveStackMap: a map that BPF fills in this kernel, read by its number and by its path, has
// the entries that are read by themselves, in files with those build IDs; and counts are those
// of the map that counts.
func TestLiveStackMap(t *testing.T) {
	m, shell := traceSort(t)
	stacks, counts := fmt.Sprintf("id:%d", bpfmaptest.ID(t, m.Stacks)), "pin:"+bpfmaptest.Pin(t, m.Counts)
	want := readMap(t, stacks)
	if len(want) == 0 {
		t.Fatal("sort has not entered futex")
	}
	out := profileRun(t, "replay", "-q", "--format=json", "--bpf-map", stacks, "--weights", counts, "--weights-key=0")
	list := mapStacks(t, out)
	if len(list) != len(want) {
		t.Fatalf("%d stacks, the map has %d", len(list), len(want))
	}
	sum, named := uint64(0), 0
	for i, s := range list {
		if s.Count == nil {
			t.Errorf("stack %d has no count", i)
			continue
		}
		sum += *s.Count
		var words []string
		for _, f := range s.Stack {
			words = append(words, f.BuildID+" "+f.Offset)
			if f.Path == "" {
				continue
			}
			if strings.HasPrefix(f.Offset, "0xffff") {
				t.Errorf("%+v: the kernel made this offset of an address in no mapping", f)
			}
			named++
			if id := idOfFile(t, f.Path); id.Hex() != f.BuildID {
				t.Errorf("%+v: the file has %s", f, id.Hex())
			}
		}
		if got := strings.Join(words, "\n"); got != want[i] {
			t.Errorf("stack %d:\n%s\nwant\n%s", i, got, want[i])
		}
	}
	if total := total(t, counts); sum != total || sum == 0 {
		t.Errorf("%d stacks were counted, the map has %d", sum, total)
	}
	if named == 0 && !idOfFile(t, shell).IsZero() {
		t.Errorf("no frame of sort is in a file; the C library is %s", shell)
	}
	pinned := profileRun(t, "replay", "-q", "--format=json", "--bpf-map", "pin:"+bpfmaptest.Pin(t, m.Stacks), "--weights", counts, "--weights-key=0")
	if pinned != out {
		t.Errorf("by path:\n%s\nby number:\n%s", pinned, out)
	}
	var stderr strings.Builder
	if code := run([]string{"replay", "-q", "--bpf-map", counts}, strings.NewReader(""), io.Discard, &stderr); code == exitOK || !strings.Contains(stderr.String(), "no stacks") {
		t.Errorf("a map of counts: %d, %s", code, stderr.String())
	}
}

// traceSort runs sort with threads, and returns the maps of its stacks and counts, and the path
// of its C library.
func traceSort(t *testing.T) (m *bpfmaptest.Maps, library string) {
	t.Helper()
	data, err := os.CreateTemp(t.TempDir(), "lines")
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	sort := shelltest.Start(t, `seq 400000 >"$1"; exec sort -r --parallel=4 "$1" >/dev/null`, data.Name())
	m = bpfmaptest.Attach(t, sort.PID)
	library = libraryOf(t, sort.PID)
	if err := sort.End(); err != nil {
		t.Fatal(err)
	}
	return m, library
}

// libraryOf returns the path of the C library that a process has mapped, "/dev/null" if it has
// none.
func libraryOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if p, err := procmap.ParseLine([]byte(strings.TrimSuffix(line, "\n"))); err == nil && strings.Contains(p.Name, "/libc.so") {
			return p.Name
		}
	}
	return "/dev/null"
}

func idOfFile(t *testing.T, name string) elfid.ID {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id, err := elfid.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// readMap returns the stacks of a map as words, by the bytes of its entries.
func readMap(t *testing.T, spec string) (list []string) {
	t.Helper()
	m, err := bpfmap.OpenStacks(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for {
		e, err := m.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for v := e.Values[0]; len(v) > 0 && v[0] != 0; v = v[32:] {
			at := uint64(0)
			for i := range 8 {
				at = at<<8 | uint64(v[31-i])
			}
			switch v[0] {
			case 1:
				words = append(words, fmt.Sprintf("%s %#x", hex.EncodeToString(v[4:24]), at))
			default:
				words = append(words, " ") // an address, which is no offset
			}
		}
		list = append(list, strings.Join(words, "\n"))
	}
}

// total adds up the values of a map.
func total(t *testing.T, spec string) (sum uint64) {
	t.Helper()
	m, err := bpfmap.Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	counts, err := stackmap.ReadCounts(m, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range counts {
		sum += n
	}
	return sum
}

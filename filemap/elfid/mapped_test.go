package elfid

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMapped: the build ID of this program is in its memory, by each of its mappings of
// the file, and not where another program would have it.
func TestMapped(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	defer exe.Close()
	name, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Read(exe)
	if err != nil || want.IsZero() {
		t.Skipf("this program has the build ID %q: %v", want.Hex(), err)
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	defer mem.Close()
	read := func(addr uint64, b []byte) error {
		_, err := mem.ReadAt(b, int64(addr))
		return err
	}
	// other has one bit of the ID changed.
	other := func(addr uint64, b []byte) error {
		err := read(addr, b)
		b[len(b)-1] ^= 1
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range bytes.Lines(maps) {
		var start, end, offset uint64
		var perms string
		if _, err := fmt.Sscanf(string(line), "%x-%x %s %x", &start, &end, &perms, &offset); err != nil || !strings.HasSuffix(string(line), " "+name+"\n") {
			continue
		}
		seen++
		if id, there, err := Mapped(exe, start, offset, read); id != want || !there || err != nil {
			t.Errorf("%x from %x on: %q, %v, %v", start, offset, id.Hex(), there, err)
		}
		if _, there, _ := Mapped(exe, start, offset, other); there {
			t.Errorf("%x from %x on: another ID is taken for it", start, offset)
		}
		if _, there, _ := Mapped(exe, start+4096, offset, read); there {
			t.Errorf("%x from %x on: the ID is found one page further", start, offset)
		}
	}
	if seen == 0 {
		t.Fatalf("no mapping of %s in\n%s", name, maps)
	}
}

// TestMappedHostile: program headers that put one page everywhere do not make more work.
func TestMappedHostile(t *testing.T) {
	loads := make([]load, maxSegments)
	for i := range loads {
		loads[i] = load{addr: uint64(i) << 20, size: 1 << 40}
	}
	if n := len(places(loads, 0x200, 0x400000, 0)); n != maxPlaces {
		t.Errorf("%d places are tried", n)
	}
}

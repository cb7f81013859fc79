package observed

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/shelltest"
	"ustack/tracefs"
	"ustack/tracefs/tracedat"
)

func newSaved(t *testing.T, processes []tracedat.Process, sysroot string) *Saved {
	t.Helper()
	s, err := NewSaved(processes, sysroot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestFits: a mapping has the offset of a segment with code that alone is as long as it, at the
// right distance from the file's lowest mapping.
func TestFits(t *testing.T) {
	list := []segment{{0, 0x1000, 0, false}, {0x1000, 0x3000, 0x1000, true}, {0x4000, 0x2000, 0x4000, false}, {0x6000, 0x2000, 0x7000, true}}
	at := func(start, end, first uint64) savedPlace {
		return savedPlace{start: start, end: end, first: first}
	}
	for _, c := range []struct {
		place savedPlace
		want  uint64
		ok    bool
	}{
		{at(0x7001000, 0x7004000, 0x7000000), 0x1000, true},
		{at(0x7001000, 0x7004000, 0x7001000), 0, false}, // not where the segment is
		{at(0x7002000, 0x7005000, 0x7000000), 0, false},
		{at(0x7000000, 0x7001000, 0x7000000), 0, false}, // no code
		{at(0x7007000, 0x7009000, 0x7000000), 0, false}, // two are as long
		{at(0x7001000, 0x7003000, 0x7000000), 0, false},
	} {
		if offset, ok := fits(list, &c.place); ok != c.ok || ok && offset != c.want {
			t.Errorf("%+v: %#x, %v", c.place, offset, ok)
		}
	}
}

// waitingShell starts a shell that waits, and returns its mappings.
func waitingShell(t *testing.T) (list []procmap.Mapping) {
	t.Helper()
	shell := shelltest.Start(t, "")
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", shell.PID))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		m, err := procmap.ParseLine([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// TestSavedFiles: of the mappings of a real process, without their offsets, frames are at the
// offsets that they have, or have none; and a mapping that is a page longer has none.
func TestSavedFiles(t *testing.T) {
	maps := waitingShell(t)
	p, longer := tracedat.Process{PID: 7}, tracedat.Process{PID: 8}
	for i := range maps {
		if m := &maps[i]; m.Name != "" {
			r := tracedat.Range{Start: m.Start, End: m.End, Name: m.Name}
			p.Ranges = append(p.Ranges, r)
			if r.End += 4096; i+1 == len(maps) || maps[i+1].Start >= r.End {
				longer.Ranges = append(longer.Ranges, r)
			}
		}
	}
	s := newSaved(t, []tracedat.Process{p, longer}, "/")
	named := 0
	for i := range maps {
		m := &maps[i]
		for pid := int32(7); pid <= 8; pid++ {
			addr := m.Start + (m.End-m.Start)/2
			q := resolve.Query{TID: pid, TGID: pid, Frames: []tracefs.Frame{{Addr: addr, HasAddr: true, Form: tracefs.FormPlain}},
				Attributions: []resolve.Attribution{resolve.Unnamed(filemap.NoAddressSpace)}}
			s.Attribute(&q)
			o := &q.Attributions[0]
			switch {
			case o.File == nil:
			case pid == 8, o.File.Path != m.Name, o.Trust != filemap.Late, o.Offset != m.FileOffset(addr), m.Perms&procmap.Exec == 0:
				t.Errorf("process %d, %#x in %s: %s at %#x, %s, not at %#x", pid, addr, m.Name, o.File.Path, o.Offset, o.Trust, m.FileOffset(addr))
			default:
				named++
			}
		}
	}
	if named == 0 && randomized(p.Ranges) && strings.HasPrefix(maps[0].Name, "/") && maps[0].Start > notRandom {
		t.Errorf("no mapping of the shell has a file")
	}
}

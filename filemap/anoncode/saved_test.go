//go:build !device

package anoncode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/hotspot"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// stackOf makes a stack of addresses.
func stackOf(tid int32, at tracefs.Time, addrs ...uint64) *resolve.Query {
	s := &resolve.Query{TID: tid, Time: at, Timed: true, Attributions: make([]resolve.Attribution, len(addrs))}
	for i, addr := range addrs {
		s.Frames = append(s.Frames, tracefs.Frame{Addr: addr, HasAddr: true, Form: tracefs.FormPlain})
		s.Attributions[i] = resolve.Attribution{Reason: filemap.Anonymous, Memory: &filemap.Memory{Name: "[anon]", Exec: true}}
	}
	return s
}

// withMaps writes perf maps of random code, with names that need escapes, and returns an
// Attributor that names by them.
func withMaps(t *testing.T, rnd *rand.Rand, keeper *Keeper) *Attributor {
	t.Helper()
	dir := t.TempDir()
	for pid := range 4 {
		var b bytes.Buffer
		for n := range 1 + rnd.IntN(12) {
			fmt.Fprintf(&b, "%x %x f%d-%d %s\n", 0x1000+16*rnd.IntN(64), 1+rnd.IntN(40), pid, n, []string{"", "\x1b[31m", `\012`, "a:b", "\t"}[rnd.IntN(5)])
		}
		if err := os.WriteFile(filepath.Join(dir, mapName(1+pid)), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return New(Options{Directory: d, Keeper: keeper, Program: func(s *resolve.Query) (Program, bool) {
		return Program{PID: int(s.TID)}, s.Timed
	}})
}

// TestSavedNames: with the names that were saved, and without the maps, every frame of every
// stack has the memory and the function that it had.
func TestSavedNames(t *testing.T) {
	named := 0
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var file bytes.Buffer
		keeper := NewKeeper(&file, "id")
		live := withMaps(t, rnd, keeper)
		var stacks [][]uint64
		var before []*resolve.Query
		at := tracefs.Time(1e9)
		for range 300 {
			at += tracefs.Time(1000 * rnd.IntN(3)) // several of a thread have the same time
			var addrs []uint64
			for range 1 + rnd.IntN(5) {
				addrs = append(addrs, 0x1000+uint64(rnd.IntN(1100)))
			}
			s := stackOf(int32(1+rnd.IntN(5)), at, addrs...)
			s.Timed = rnd.IntN(20) > 0
			s.Attributions[rnd.IntN(len(addrs))].Reason = filemap.NoVMA
			live.Attribute(s)
			stacks, before = append(stacks, addrs), append(before, s)
		}
		if err := keeper.Close(); err != nil || keeper.Left() != 0 {
			t.Fatal(err, keeper.Left())
		}
		if text := file.String(); strings.ContainsAny(strings.ReplaceAll(text, "\n", ""), "\x1b\t") {
			t.Fatalf("a control character is in the file: %q", text)
		}
		saved, err := LoadSaved(&file)
		if err != nil {
			t.Fatal(err)
		}
		foreign := false
		replay := New(Options{Saved: saved, Program: live.opt.Program, Foreign: func(*resolve.Query) bool { return foreign }})
		for i, was := range before {
			s := stackOf(was.TID, was.Time, stacks[i]...)
			s.Timed = was.Timed
			for k := range s.Attributions {
				s.Attributions[k].Reason = was.Attributions[k].Reason
			}
			replay.Attribute(s)
			for k := range s.Attributions {
				if got, want := s.Attributions[k].Memory, was.Attributions[k].Memory; !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, stack %d, frame %d: %+v, live had %+v", seed, i, k, got, want)
				} else if got.Code != nil {
					named++
				}
			}
		}
		foreign = true
		s := stackOf(before[0].TID, before[0].Time, stacks[0]...)
		if replay.Attribute(s); s.Attributions[0].Memory.Code != nil {
			t.Errorf("a stack of another trace has the name %+v", s.Attributions[0].Memory.Code)
		}
	}
	if named < 1000 {
		t.Errorf("only %d frames have names", named)
	}
}

// TestSavedRuntime: functions of a virtual machine are of one stack, even if another one of
// the same thread has the same time and addresses.
func TestSavedRuntime(t *testing.T) {
	var file bytes.Buffer
	keeper := NewKeeper(&file, "id")
	codes := []*filemap.Code{
		{Function: "A.a", Runtime: true, Offset: 7, Inlined: []string{"B.b", "C.c\td"}},
		{Function: "D.d", Runtime: true},
	}
	machines := hotspot.NewNames()
	live := New(Options{Keeper: keeper, Machines: machines})
	for i, c := range codes {
		s := stackOf(7, 5000, 0x10, 0x10)
		live.named = append(live.named[:0], hotspot.Named{Frame: 1, Addr: 0x10, Code: c})
		if turn := live.turn(s); turn != i {
			t.Fatalf("turn %d, want %d", turn, i)
		}
		keeper.stack(s, i, live.named)
	}
	if err := keeper.Close(); err != nil {
		t.Fatal(err)
	}
	saved, err := LoadSaved(&file)
	if err != nil {
		t.Fatal(err)
	}
	replay := New(Options{Saved: saved, Foreign: func(*resolve.Query) bool { return false }, Program: func(*resolve.Query) (p Program, ok bool) { return }})
	for i, want := range append(codes, nil) {
		s := stackOf(7, 5000, 0x10, 0x10)
		replay.Attribute(s)
		if got := s.Attributions[1].Memory.Code; !reflect.DeepEqual(got, want) || s.Attributions[0].Memory.Code != nil {
			t.Errorf("stack %d: %+v, want %+v", i, got, want)
		}
	}
	s := stackOf(7, 5000, 0x10, 0x20)
	clear(replay.turns)
	if replay.Attribute(s); s.Attributions[1].Memory.Code != nil {
		t.Error("another address has the name")
	}
}

// TestKeeperBounded: names for which there is no room are counted, and the file can be read.
func TestKeeperBounded(t *testing.T) {
	var file bytes.Buffer
	keeper := NewKeeper(&file, "id")
	const each = 4 << 10
	n := int64(0)
	for i := range maxKeptNames/each + 10 {
		c := &filemap.Code{Function: fmt.Sprintf("%0*d", each, i), Start: 1}
		keeper.stack(stackOf(1, tracefs.Time(i), 1), 0, []hotspot.Named{{Addr: 1, Code: c}})
		n++
	}
	keeper.stack(stackOf(1, 0, 1), 1, []hotspot.Named{{Addr: 1, Code: &filemap.Code{Function: strings.Repeat("\n", maxKeptLine/4)}}})
	if err := keeper.Close(); err != nil {
		t.Fatal(err)
	}
	if size := file.Len(); size > maxKeptNames+(64<<10)*3 {
		t.Errorf("%d bytes", size)
	}
	saved, err := LoadSaved(&file)
	if err != nil || saved.Left != keeper.Left() || saved.Left < 2 || int64(len(saved.stacks))+saved.Left != n+1 {
		t.Errorf("%v: %d stacks, %d left, the Keeper left %d", err, len(saved.stacks), saved.Left, keeper.Left())
	}
}

// TestSavedErrors: what ustack does not write is refused.
func TestSavedErrors(t *testing.T) {
	for _, text := range []string{
		"", "map 10 a\n", "# ustack names 2 trace=a\n", "# ustack names 1 trace=a\nmap 10\n", "# ustack names 1 trace=a\nmap 10 \n",
		"# ustack names 1 trace=a\nmap x a\n", "# ustack names 1 trace=a\nmap 10 a\tb\n", "# ustack names 1 trace=a\nmap 10 a\nframes 0:9:0\n",
		"# ustack names 1 trace=a\nframes 0:10:0\n", "# ustack names 1 trace=a\nmap 10 a\nframes 0:10\n", "# ustack names 1 trace=a\nstack 1.000000000 1 0 0\n",
		"# ustack names 1 trace=a\nmap 10 a\nframes 0:10:0\nstack 1.0 1 0 0\n", "# ustack names 1 trace=a\nleft -1\n", "# ustack names 1 trace=a\n\n",
		"# ustack names 1 trace=a\nmap 10 " + strings.Repeat("a", maxKeptLine) + "\n",
	} {
		if s, err := LoadSaved(strings.NewReader(text)); err == nil {
			t.Errorf("%.80q: %+v", text, s)
		}
	}
	s, err := LoadSaved(strings.NewReader("# ustack names 1 trace=a\nmap 10 a\nframes 0:10:0\nstack 1.000000000 1 0 0\nstack 2.00"))
	if err != nil || len(s.stacks) != 1 {
		t.Errorf("a file that was cut: %v", err)
	}
}

func FuzzLoadSaved(f *testing.F) {
	f.Add([]byte("# ustack names 1 trace=a\nmap 10 a\nruntime 3 A.b\tC.d\nframes 0:10:0 2:7f:1\nstack 1.000000000 1 0 0\nleft 3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := LoadSaved(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, st := range s.stacks {
			for _, n := range s.find(&resolve.Query{TID: st.tid, Time: st.at}, int(st.turn)) {
				if n.Code.Function == "" || !n.Code.Runtime && n.Code.Start > n.Addr {
					t.Errorf("%+v at %#x", n.Code, n.Addr)
				}
			}
		}
	})
}

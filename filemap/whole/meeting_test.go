package whole

import (
	"fmt"
	"strings"
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
)

// Of a process: /lib/a at 0x10000 from offset 0x1000 on, /lib/b at 0x20000, /lib/c at
// 0x30000, memory at 0x40000, the vDSO at 0x50000. The inodes are those of device 8:0.
func meetingSpace() *space.Spaces {
	spaces := space.New()
	for i, name := range []string{"/lib/a", "/lib/b", "/lib/c", "", "[vdso]"} {
		m := &procmap.Mapping{Start: 0x10000 * uint64(i+1), Name: name, Perms: procmap.Read | procmap.Exec}
		m.End = m.Start + 0x8000
		if strings.HasPrefix(name, "/") {
			m.Offset, m.Inode, m.Dev = 0x1000, uint64(i+1), procmap.Dev{Major: 8}
		}
		m.Kind = procmap.Classify(m.Name, m.Dev, m.Inode)
		spaces.Map(1, m, 10)
	}
	return spaces
}

func heldAt(sp *space.Space, addrs ...uint64) (list []held) {
	for _, a := range addrs {
		place, _ := sp.Lookup(a, 20)
		list = append(list, held{pc: a, how: unwind.CFI, place: place})
	}
	return list
}

// hashed is a frame of the kernel's with a hash, 0 for memory without a file.
func hashed(number, hash uint64) tracefs.Frame {
	return tracefs.Frame{Addr: number, HasAddr: true, Form: tracefs.FormIdentifier, ID: tracefs.HashIdentifier(hash)}
}

func numbered(number, inode uint64, major uint32) tracefs.Frame {
	return tracefs.Frame{Addr: number, HasAddr: true, Form: tracefs.FormIdentifier, ID: tracefs.InodeIdentifier(inode, major, 0)}
}

func plain(number uint64) tracefs.Frame {
	return tracefs.Frame{Addr: number, HasAddr: true, Form: tracefs.FormPlain}
}

// TestMeeting: a deferred stack that begins where the thread was gets the frames that the
// kernel has left out, and keeps its own; what only looks like a frame goes.
func TestMeeting(t *testing.T) {
	const a, b, c, memory, vdso = 0x10010, 0x20020, 0x30030, 0x40040, 0x50050
	const inA, inB, inC = 0x1010, 0x1020, 0x1030
	sp := meetingSpace().Space(1)
	for name, test := range map[string]struct {
		found  []uint64
		end    unwind.End
		kernel []tracefs.Frame
		want   string // "" if they are not of one user stack
	}{
		"callers are left out":       {[]uint64{a, b, c}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inA, 5), hashed(inC, 6)}, "1010:5 20020 1030:6 root"},
		"all are there":              {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inA, 5), hashed(inB, 6)}, "1010:5 1020:6 root"},
		"no frames, but data":        {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inA, 5), hashed(0x77, 6), hashed(inB, 6)}, "1010:5 20020 root"},
		"addresses":                  {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{plain(a)}, "10010 20020 root"},
		"offsets alone":              {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{plain(inA)}, "10010 20020 root"},
		"inodes":                     {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{numbered(inA, 1, 8), numbered(inB, 2, 8)}, "1010:1 1020:2 root"},
		"inodes below an overlay":    {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{numbered(inA, 77, 9)}, "1010:77 20020 root"},
		"the vDSO":                   {[]uint64{vdso, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(0x50, 0)}, "50:0 20020 root"},
		"memory":                     {[]uint64{memory, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(memory, 0)}, "40040:0 20020 root"},
		"the copy is too short":      {[]uint64{a, b}, unwind.End{Why: unwind.Short}, []tracefs.Frame{hashed(inA, 5), hashed(inB, 6), hashed(inC, 7)}, "1010:5 1020:6 1030:7"},
		"too short, a caller less":   {[]uint64{a, b}, unwind.End{Why: unwind.Short}, []tracefs.Frame{hashed(inA, 5), hashed(inC, 7)}, "1010:5 20020 copy-too-short"},
		"code of a compiler":         {[]uint64{a, b}, unwind.End{Why: unwind.NoMap, Addr: memory}, []tracefs.Frame{hashed(inA, 5), hashed(memory, 0), hashed(inC, 7)}, "1010:5 20020 40040:0 1030:7"},
		"other code of a compiler":   {[]uint64{a, b}, unwind.End{Why: unwind.NoMap, Addr: memory + 1}, []tracefs.Frame{hashed(inA, 5), hashed(memory, 0), hashed(inC, 7)}, "1010:5 20020 no-map"},
		"it begins elsewhere":        {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inA+1, 5), hashed(inB, 6)}, ""},
		"it begins after that":       {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inB, 6)}, ""},
		"it is empty":                {[]uint64{a, b}, unwind.End{Why: unwind.Root}, nil, ""},
		"nothing is mapped there":    {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inA, 0xffffffff)}, ""},
		"no file there":              {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inA, 0)}, ""},
		"another inode":              {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{numbered(inA, 2, 8)}, ""},
		"one identifier, two files":  {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inA, 5), hashed(inB, 5)}, ""},
		"two identifiers, one file":  {[]uint64{a, b, a}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inA, 5), hashed(inB, 6), hashed(inA, 7)}, ""},
		"an identifier again, later": {[]uint64{a, b, c}, unwind.End{Why: unwind.Root}, []tracefs.Frame{hashed(inA, 5), hashed(inB, 6), hashed(inC, 5)}, ""},
	} {
		m := meeting{found: heldAt(sp, test.found...), end: &test.end, kernel: test.kernel}
		got := ""
		if m.agree() {
			got = meetingWords(m.frames(nil))
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// meetingWords is a stack in words.
func meetingWords(frames []tracefs.Frame) string {
	var words []string
	for i := range frames {
		f := &frames[i]
		word := fmt.Sprintf("%x", f.Addr)
		if f.Form == tracefs.FormIdentifier && f.ID.IsInode() {
			inode, _, _ := f.ID.Inode()
			word += fmt.Sprintf(":%d", inode)
		} else if f.Form == tracefs.FormIdentifier {
			word += strings.ReplaceAll(string(f.ID.Append([]byte{':'})), "0x", "")
		}
		words = append(words, word)
		if _, stop := f.Unwound(); stop != tracefs.NoStop {
			words = append(words, stop.String())
		}
	}
	return strings.Join(words, " ")
}

// TestArrivals: frames get their files by the time of the deferred stack, so they have to
// be in the same ones then, and in the same process.
func TestArrivals(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*space.Spaces)
		flags  tracefs.Flags
		pid    int
		want   Counts
	}{
		"nothing has changed": {nil, 0, 1, Counts{Waits: 1, Whole: 1}},
		"another process":     {nil, 0, 2, Counts{Waits: 1, Contradicted: 1}},
		"cut by the kernel":   {nil, tracefs.Cut, 1, Counts{Waits: 1, Kept: 1}},
		"another file": {func(s *space.Spaces) {
			s.Map(1, &procmap.Mapping{Start: 0x20000, End: 0x28000, Offset: 0x1000, Name: "/lib/d", Inode: 9, Perms: procmap.Exec}, 30)
		}, 0, 1, Counts{Waits: 1, Contradicted: 1}},
		"another part of the file": {func(s *space.Spaces) {
			s.Map(1, &procmap.Mapping{Start: 0x20000, End: 0x28000, Offset: 0x2000, Name: "/lib/b", Inode: 2, Dev: procmap.Dev{Major: 8}, Perms: procmap.Exec}, 30)
		}, 0, 1, Counts{Waits: 1, Contradicted: 1}},
		"the file again": {func(s *space.Spaces) {
			s.Map(1, &procmap.Mapping{Start: 0x20000, End: 0x28000, Offset: 0x1000, Name: "/lib/b", Inode: 2, Dev: procmap.Dev{Major: 8}, Perms: procmap.Exec}, 30)
		}, 0, 1, Counts{Waits: 1, Whole: 1}},
		"nothing": {func(s *space.Spaces) { s.Unmap(1, 0x20000, 0x28000, 30) }, 0, 1, Counts{Waits: 1, Contradicted: 1}},
		"a file for memory": {func(s *space.Spaces) {
			s.Map(1, &procmap.Mapping{Start: 0x40000, End: 0x48000, Name: "/lib/d", Inode: 9, Perms: procmap.Exec}, 30)
		}, 0, 1, Counts{Waits: 1, Contradicted: 1}},
		"memory that grows": {func(s *space.Spaces) {
			s.Map(1, &procmap.Mapping{Start: 0x3f000, End: 0x48000, Kind: procmap.Anonymous, Perms: procmap.Exec}, 30)
		}, 0, 1, Counts{Waits: 1, Whole: 1}},
	} {
		spaces := meetingSpace()
		found := heldAt(spaces.Space(1), 0x10010, 0x20020, 0x40040)
		if test.change != nil {
			test.change(spaces)
		}
		s := New(Options{Space: func(int, tracefs.Time) (int, *space.Space, bool) { return test.pid, spaces.Space(1), true }})
		b := &tracefs.Batch{
			Text: []byte("title\nline\n"), Frames: []tracefs.Frame{hashed(0x1010, 5)}, Origins: []tracefs.Origin{{Time: 40, Exact: 40}},
			Records: []tracefs.Record{{Kind: tracefs.KindStack, Flags: tracefs.Deferred | test.flags, TID: 9, End: 11, Hi: 1, Origin: 1}},
		}
		s.trips.arrived = []arrival{{0, &trip{tid: 9, pid: 1, frames: found}}}
		s.replace(b)
		s.Close()
		if got := s.Counts(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

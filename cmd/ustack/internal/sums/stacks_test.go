package sums

import (
	"encoding/binary"
	"os"
	"reflect"
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/tracefs/bpffutex"
)

// idOf returns a build ID of 20 equal bytes.
func idOf(t *testing.T, b byte) elfid.ID {
	t.Helper()
	var all [filemap.BuildIDSize]byte
	for i := range all {
		all[i] = b
	}
	id, ok := elfid.New(all[:])
	if !ok {
		t.Fatal("no build ID")
	}
	return id
}

// waitAt returns a wait of a program with a frame at each offset of the file with a build ID.
func waitAt(of bpffutex.Futex, id filemap.BuildID, offsets ...uint64) *bpffutex.Wait {
	w := &bpffutex.Wait{Futex: of, Raw: []byte{}}
	for _, offset := range offsets {
		w.Stack = append(w.Stack, bpffutex.Frame{BuildID: id, Number: offset})
		w.Raw = binary.NativeEndian.AppendUint64(append(w.Raw, id[:]...), offset)
	}
	return w
}

// attributionsOf returns the attributions of a wait as they are found without what is remembered.
func attributionsOf(f *files, w *bpffutex.Wait) []resolve.Attribution {
	without := *w
	without.Raw = nil
	return append([]resolve.Attribution(nil), f.stack(&without).Attributions...)
}

// TestRemembered: a stack is remembered, with what is found of it, until something new is read of
// what its program has mapped.
func TestRemembered(t *testing.T) {
	f := emptyFiles(t)
	of := bpffutex.Futex{TGID: int32(os.Getpid()), Memory: 1}
	id := idOf(t, 7)
	key := filemap.BuildID(id.Padded())
	p := f.program(&of)
	put := func(path string) {
		p.paths[key] = path
		p.code = []procmap.Mapping{{Start: 0x10000, End: 0x13000, Offset: 0x5000, BuildID: id}}
	}
	put("/bin/w")
	w := waitAt(of, key, 0x5010, 0x5020)
	first := f.stack(w)
	if first.ResultID == 0 || first.Attributions[0].File.Path != "/bin/w" || !reflect.DeepEqual(first.Attributions, attributionsOf(f, w)) {
		t.Fatalf("%+v", first)
	}
	if f.stack(w) != first {
		t.Error("it is not remembered")
	}
	cut := *w
	cut.Cut = true
	if s := f.stack(&cut); s == first || !s.Stock {
		t.Errorf("cut: %+v", s)
	}
	other := waitAt(of, key, 0x5010, 0x5030)
	if s := f.stack(other); s.Attributions[1].Offset != 0x5030 || s.ResultID == first.ResultID {
		t.Errorf("another stack: %+v", s)
	}
	f.read(of.TGID, p) // what it has mapped now
	put("/bin/v")
	if s := f.stack(w); s.Attributions[0].File.Path != "/bin/v" || s.ResultID == first.ResultID {
		t.Errorf("after its mappings have been read again: %+v", s)
	}
	w.Memory = 2 // it has executed another program
	if s := f.stack(w); s.Attributions[0].File != nil {
		t.Errorf("after an exec: %+v", s)
	}
}

// TestRememberedHash: a stack with the hash of another one has its own files.
func TestRememberedHash(t *testing.T) {
	f := emptyFiles(t)
	of := bpffutex.Futex{TGID: noProcess, Memory: 1}
	id := idOf(t, 7)
	key := filemap.BuildID(id.Padded())
	p := f.program(&of)
	p.paths[key] = "/bin/w"
	p.code = []procmap.Mapping{{Start: 0x10000, End: 0x13000, Offset: 0x5000, BuildID: id}}
	one, two := waitAt(of, key, 0x5010), waitAt(of, key, 0x5020)
	f.stack(one)
	f.stacks.stacks[f.stacks.key(p, two.Raw)] = f.stacks.stacks[f.stacks.key(p, one.Raw)]
	if s := f.stack(two); s.Attributions[0].Offset != 0x5020 {
		t.Errorf("%+v", s)
	}
}

// TestRememberedNot: what is found of a stack can change without a change of what has been read if
// a frame is an address, has no path, or is not in what is known as code.
func TestRememberedNot(t *testing.T) {
	f := emptyFiles(t)
	of := bpffutex.Futex{TGID: noProcess, Memory: 1}
	id := idOf(t, 7)
	key := filemap.BuildID(id.Padded())
	p := f.program(&of)
	p.paths[key] = "/bin/w"
	p.code = []procmap.Mapping{{Start: 0x10000, End: 0x13000, Offset: 0x5000, BuildID: id}}
	address := waitAt(of, key, 0x5010, 0x5020)
	address.Stack[1] = bpffutex.Frame{Number: 0x10020, IsAddress: true}
	for name, w := range map[string]*bpffutex.Wait{
		"an address": address, "no path": waitAt(of, filemap.BuildID{1}, 0x5010), "no code": waitAt(of, key, 0x9000),
	} {
		if s := f.stack(w); s.ResultID != 0 || len(f.stacks.stacks) > 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestRememberedBounded: the memory of stacks is bounded.
func TestRememberedBounded(t *testing.T) {
	f := emptyFiles(t)
	of := bpffutex.Futex{TGID: noProcess, Memory: 1}
	id := idOf(t, 7)
	key := filemap.BuildID(id.Padded())
	p := f.program(&of)
	p.paths[key] = "/bin/w"
	p.code = []procmap.Mapping{{Start: 0x10000, End: 0x10000 + 2*maxFrames, Offset: 0, BuildID: id}}
	most := 0
	for i := range uint64(maxFrames) {
		f.stack(waitAt(of, key, i, i+1))
		most = max(most, f.stacks.frames)
	}
	if most != maxFrames {
		t.Errorf("%d frames at most", most)
	}
	if err := f.renew(); err != nil {
		t.Fatal(err)
	}
	if len(f.stacks.stacks) > 0 {
		t.Errorf("%d stacks of processes that are forgotten", len(f.stacks.stacks))
	}
}

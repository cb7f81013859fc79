package perfdata

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/binary"
)

// TestSpaces: a process has the same number at two times if nothing can have changed between
// them, and only then, in whatever order changes are noted and times are asked for.
func TestSpaces(t *testing.T) {
	const times, pids = 40, 70 // two of them share a slot of recent
	same := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := newSpaces()
		var changed [pids][times]bool
		for range rng.IntN(400) {
			pid, at := rng.IntN(pids), rng.IntN(times)
			if rng.IntN(50) > 0 {
				s.changed(int32(pid), uint64(at))
				changed[pid][at] = true
				continue
			}
			s.all(uint64(at))
			for pid := range changed {
				changed[pid][at] = true
			}
		}
		s.sort()
		for range 4000 {
			pid, from := rng.IntN(pids), rng.IntN(times)
			to := from + rng.IntN(times-from)
			want := true
			for at := from + 1; at <= to; at++ {
				want = want && !changed[pid][at]
			}
			a, b := s.of(int32(pid), uint64(from)), s.of(int32(pid), uint64(to))
			if a == 0 || b == 0 || (a == b) != want {
				t.Fatalf("seed %d, process %d: %d at %d, %d at %d, unchanged: %v", seed, pid, a, from, b, to, want)
			}
			if want && from < to {
				same++
			}
		}
	}
	if same == 0 {
		t.Error("nothing stayed the same")
	}
}

// TestSpacesFull: of a file with more changes than are noted, each stack stands for itself.
func TestSpacesFull(t *testing.T) {
	m := newModel(1, false)
	m.fill(30)
	data := m.Write()
	for _, full := range []bool{false, true} {
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		s := f.Source(binary.Options{Events: true}, nil)
		if full {
			f.spaces = newSpaces()
			f.spaces.most = 2
			for at := range uint64(5) {
				f.spaces.changed(1, at)
				f.spaces.all(at)
			}
			f.spaces.sort()
		}
		stacks, shared := 0, 0
		for err == nil {
			var b tracefs.Batch
			if err = s.Next(&b); err == nil || err == io.EOF {
				for _, r := range b.Records {
					if r.Kind == tracefs.KindStack {
						stacks++
						shared += min(int(r.Template), 1)
					}
				}
			}
		}
		if err != io.EOF || stacks == 0 || (shared == 0) != full {
			t.Errorf("full %v: %d stacks, %d of them shared, %v", full, stacks, shared, err)
		}
	}
}

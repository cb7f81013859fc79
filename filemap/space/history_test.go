package space

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// The model of TestHistories: what each page of each process was at each moment.
const modelPages, modelPage, modelPIDs = 24, 0x1000, 5

type modelTable [modelPages]string

type model struct {
	alive [modelPIDs]bool
	pages [modelPIDs]modelTable
}

// TestHistories holds histories of processes that map, unmap, fork, execute
// programs and end, in the order in which it happens, against the model: each page
// at each moment, and the invariants of spaces.
func TestHistories(t *testing.T) {
	capturetest.SkipShort(t)
	const moments = 500
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		s := New()
		var now model
		var past []model
		for at := range moments {
			now.happen(rnd, s, tracefs.Time(at))
			past = append(past, now)
			if at%100 == 99 {
				checkInvariants(t, s)
			}
		}
		for at := range past {
			for pid := range modelPIDs {
				for i := range modelPages {
					got := where(s, pid, uint64(i)*modelPage, tracefs.Time(at))
					if want := past[at].pages[pid][i]; got != want {
						t.Fatalf("seed %d: page %d of process %d at %d is %q, want %q", seed, i, pid, at, got, want)
					}
				}
			}
		}
	}
}

// happen does something.
func (m *model) happen(rnd *rand.Rand, s *Spaces, t tracefs.Time) {
	pid, other := rnd.IntN(modelPIDs), rnd.IntN(modelPIDs)
	from := rnd.IntN(modelPages)
	to := from + 1 + rnd.IntN(modelPages-from)
	switch what := rnd.IntN(12); {
	case what == 0 && pid != other:
		s.Fork(pid, other, t)
		m.alive[other], m.pages[other] = true, m.pages[pid]
	case what == 1:
		s.Exec(pid, fmt.Sprint(t), t)
		m.alive[pid], m.pages[pid] = true, modelTable{}
	case what == 2:
		s.Exit(pid, t)
		m.alive[pid], m.pages[pid] = false, modelTable{}
	case what < 6:
		s.Unmap(pid, uint64(from)*modelPage, uint64(to)*modelPage, t)
		clear(m.pages[pid][from:to])
	default:
		f := mapping(uint64(from)*modelPage, uint64(to)*modelPage, uint64(rnd.IntN(9))*modelPage, fmt.Sprintf("/f%d", rnd.IntN(5)))
		s.MapExact(pid, &f, t)
		m.alive[pid] = true
		for i := from; i < to; i++ {
			m.pages[pid][i] = fmt.Sprintf("%s+%#x", f.Name, f.Offset+uint64(i-from)*modelPage)
		}
	}
}

// checkInvariants holds what is always so: versions are in order and do not
// overlap, nothing ends before it begins, what is still so is the last one, and
// mappings are in order and do not overlap.
func checkInvariants(t *testing.T, s *Spaces) {
	t.Helper()
	s.Snapshot().Each(func(sp *Space) bool {
		end := tracefs.Time(-1)
		for i, v := range sp.Versions() {
			if v.From < end || v.To <= v.From {
				t.Fatalf("version %d of process %d is from %d to %d, after one to %d", i, sp.PID, v.From, v.To, end)
			}
			if end == Forever {
				t.Fatalf("process %d has a version after the one that lasts", sp.PID)
			}
			end = v.To
			checkTree(t, v.Mappings)
			for m := range v.Mappings.All() {
				if m.File == nil || m.After > m.Since || m.Since >= v.To {
					t.Fatalf("process %d until %d: %+v", sp.PID, v.To, m)
				}
			}
		}
		return true
	})
}

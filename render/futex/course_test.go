package futex

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/tracefs"
)

// TestCourse: whatever the order of waits, and however courses are put together, each wait
// is counted in the slice in which it ended.
func TestCourse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		length := tracefs.Time(1 + r.Int64N(1<<r.IntN(50)))
		shift := shiftOf(length)
		var want [maxSlices]Slice
		var parts [3]course
		for range r.IntN(200) {
			at, d := tracefs.Time(r.Int64N(int64(length)+1)), tracefs.Time(r.Int64N(1000))
			parts[r.IntN(len(parts))].add(at, d)
			s := &want[at>>shift]
			s.At, s.Waits, s.Time = int32(at>>shift), s.Waits+1, s.Time+d
		}
		var sum course
		for i := range parts {
			before := slices.Clone(parts[i].list)
			sum.merge(&parts[i])
			if !slices.Equal(before, parts[i].list) {
				t.Fatalf("merging has changed %v into %v", before, parts[i].list)
			}
		}
		used := slices.DeleteFunc(want[:], func(s Slice) bool { return s.Waits == 0 })
		if got := sum.at(shift); !slices.Equal(got, used) {
			t.Fatalf("%d long: %v, want %v", length, got, used)
		}
	}
}

// TestCourseBounded: times before the beginning and at the end of all times have a slice.
func TestCourseBounded(t *testing.T) {
	var c course
	for _, at := range []tracefs.Time{-1 << 63, -1, 0, 1<<63 - 1, 5} {
		c.add(at, 1)
	}
	if want := []Slice{{0, 4, 4}, {maxSlices - 1, 1, 1}}; !slices.Equal(c.list, want) {
		t.Errorf("%v, want %v", c.list, want)
	}
}

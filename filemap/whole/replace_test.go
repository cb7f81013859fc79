package whole

import (
	"testing"

	"ustack/filemap/unwind"
	"ustack/tracefs"
)

// TestFrameList: the kernel's frames go on where the tables end, if both agree so far and,
// at code that is not known, on the return address into it.
func TestFrameList(t *testing.T) {
	const a, b, jit, c, other = 0x1000, 0x2000, 0x9000, 0x3000, 0x8000
	for name, test := range map[string]struct {
		unwound []uint64
		end     unwind.End
		kernel  []uint64
		want    int
		stop    tracefs.Stop
	}{
		"no tables":                {[]uint64{a, b}, unwind.End{Why: unwind.NoInformation}, []uint64{a, b, c}, 3, tracefs.NoStop},
		"the copy is too short":    {[]uint64{a, b}, unwind.End{Why: unwind.Short}, []uint64{a, b, c}, 3, tracefs.NoStop},
		"code of a compiler":       {[]uint64{a, b}, unwind.End{Why: unwind.NoMap, Addr: jit}, []uint64{a, b, jit, c}, 4, tracefs.NoStop},
		"moved code":               {[]uint64{a, b}, unwind.End{Why: unwind.Contradiction, Addr: jit}, []uint64{a, b, jit, c}, 4, tracefs.NoStop},
		"a caller left out":        {[]uint64{a, b}, unwind.End{Why: unwind.NoMap, Addr: jit}, []uint64{a, jit, c}, 4, tracefs.NoStop},
		"frames the other way":     {[]uint64{a, b}, unwind.End{Why: unwind.NoMap, Addr: jit}, []uint64{b, a, jit, c}, 2, tracefs.AtNoMap},
		"another return address":   {[]uint64{a, b}, unwind.End{Why: unwind.NoMap, Addr: jit}, []uint64{a, b, other, c}, 2, tracefs.AtNoMap},
		"a frame that is not code": {[]uint64{a, b}, unwind.End{Why: unwind.Contradiction, Addr: jit}, []uint64{a, b, other}, 2, tracefs.AtContradiction},
		"other frames so far":      {[]uint64{a, b}, unwind.End{Why: unwind.NoMap, Addr: jit}, []uint64{a, c, jit}, 2, tracefs.AtNoMap},
		"no more frames":           {[]uint64{a, b}, unwind.End{Why: unwind.NoMap, Addr: jit}, []uint64{a, b}, 2, tracefs.AtNoMap},
		"the root":                 {[]uint64{a, b}, unwind.End{Why: unwind.Root}, []uint64{a, b, c}, 2, tracefs.AtRoot},
	} {
		s := new(Stage)
		for _, pc := range test.unwound {
			s.frames = append(s.frames, unwind.Frame{PC: pc})
		}
		var kernel []tracefs.Frame
		for _, addr := range test.kernel {
			kernel = append(kernel, tracefs.Frame{Addr: addr, HasAddr: true, Form: tracefs.FormPlain})
		}
		got := s.frameList(kernel, nil, test.end)
		if len(got) != test.want {
			t.Errorf("%s: %d frames, want %d", name, len(got), test.want)
			continue
		}
		if _, stop := got[len(got)-1].Unwound(); stop != test.stop {
			t.Errorf("%s: ends with %v, want %v", name, stop, test.stop)
		}
	}
}

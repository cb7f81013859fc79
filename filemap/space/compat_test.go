package space

import (
	"testing"

	"ustack/filemap/procmap"
)

// Processes of 32 bits are known by what the kernel gives them, and nothing of
// what they map is sure: a vDSO, or on arm64 kernels without one for them, the page
// that handlers of signals return to.
func TestCompat(t *testing.T) {
	special := func(name string, kind procmap.Kind, start uint64) procmap.Mapping {
		return procmap.Mapping{Start: start, End: start + 0x1000, Perms: procmap.Read | procmap.Exec, Name: name, Kind: kind}
	}
	for _, test := range []struct {
		name string
		m    procmap.Mapping
		want bool
	}{
		{"vDSO of 32 bits", special("[vdso]", procmap.VDSO, 0xf79ce000), true},
		{"vDSO of 64 bits", special("[vdso]", procmap.VDSO, 0x7fff_1000_0000), false},
		{"page of signals", special("[sigpage]", procmap.Special, 0xf79cb000), true},
		{"page of probes", special("[uprobes]", procmap.Special, 0x1000_0000), false},
	} {
		s := New()
		ms := []procmap.Mapping{special("", procmap.Anonymous, 0x10000), test.m}
		s.Replace(&procmap.Process{PID: 1, Mappings: ms}, 10)
		s.Exec(2, "x", 10)
		s.MapExact(2, &test.m, 11)
		s.Exit(2, 12)
		s.ReplaceUnder(&procmap.Process{PID: 3, Mappings: ms}, 10, 0) // has changed since
		s.Exec(4, "x", 9)
		s.ReplaceUnder(&procmap.Process{PID: 4, Mappings: ms}, 10, 0)
		for pid := 1; pid <= 4; pid++ {
			if v := s.Space(pid).At(11); v.Unseen != test.want {
				t.Errorf("%s: process %d: unseen is %v", test.name, pid, v.Unseen)
			}
		}
		want := 0
		if test.want {
			want = 4
		}
		if n := s.Compats(func(int) bool { return true }); n != want {
			t.Errorf("%s: %d processes of 32 bits, want %d", test.name, n, want)
		}
		if n := s.Compats(func(pid int) bool { return pid == 2 }); n != want/4 {
			t.Errorf("%s: %d of 1", test.name, n)
		}
	}
}

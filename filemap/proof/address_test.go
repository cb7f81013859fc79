package proof

import (
	"math/rand/v2"
	"testing"

	"ustack/filemap"
	"ustack/filemap/procmap"
)

// glimpse is what a process had at an address at a moment.
type glimpse struct {
	file   int // 0 for nothing, of which known says whether that is known
	kind   procmap.Kind
	exec   bool
	late   bool
	absent bool // nothing
	known  bool
}

// isSame reports whether two moments have one file, or one kind of memory.
func (g glimpse) isSame(o glimpse) bool {
	return g.file == o.file && (g.kind == o.kind || g.kind.HasFile() && o.kind.HasFile())
}

// add adds the moments in order, and returns what is kept.
func add(a *Address, all []glimpse) (kept glimpse) {
	for _, g := range all {
		switch {
		case g.absent:
			a.Nothing(g.known)
		case a.In(g.kind, g.exec, g.late, a.Missing() || kept.isSame(g)):
			kept = g
		}
	}
	return kept
}

const user = 0x7f0000001000

func in(file int) glimpse { return glimpse{file: file, exec: true} }

// TestAddress: each rule, and which of two comes first.
func TestAddress(t *testing.T) {
	nothing, unknown := glimpse{absent: true, known: true}, glimpse{absent: true}
	data, late := glimpse{file: 1}, glimpse{file: 1, exec: true, late: true}
	memory := func(k procmap.Kind) glimpse { return glimpse{kind: k, exec: true} }
	type moments = []glimpse
	for _, c := range []struct {
		name  string
		known Address
		at    moments
		want  Verdict
	}{
		{"no moment", Address{}, nil, Verdict{Act: Drop, By: Unseen, Reason: filemap.NoAddressSpace}},
		{"code of a file", Address{}, moments{in(1), in(1)}, Verdict{Act: Name, By: Mapped, Trust: filemap.Verified}},
		{"of another time", Address{Sure: Afterwards}, moments{in(1), in(1)}, Verdict{Act: Name, By: MappedSometime, Trust: filemap.Late}},
		{"seen later", Address{}, moments{in(1), late}, Verdict{Act: Name, By: MappedSometime, Trust: filemap.Late}},
		{"mapped or unmapped then", Address{}, moments{in(1), nothing}, Verdict{Act: Name, By: Mapped, Trust: filemap.Verified}},
		{"in one of two readings", Address{Sampled: true}, moments{nothing, in(1)}, Verdict{Act: Name, By: MappedSometime, Trust: filemap.Late}},
		{"in both of two readings", Address{Sampled: true}, moments{in(1), in(1)}, Verdict{Act: Name, By: MappedSometime, Trust: filemap.Late}},
		{"two files", Address{}, moments{in(1), in(2)}, Verdict{Act: Drop, By: Unsettled, Reason: filemap.Ambiguous}},
		{"a file and memory", Address{}, moments{in(1), {file: 2, kind: procmap.Anonymous}}, Verdict{Act: Drop, By: Unsettled, Reason: filemap.Ambiguous}},
		{"one file, and something unknown", Address{}, moments{in(1), unknown}, Verdict{Act: Drop, By: Unseen, Reason: filemap.NoAddressSpace}},
		{"data", Address{}, moments{data, data}, Verdict{Act: Drop, By: Data, Reason: filemap.NotCode}},
		{"data that becomes code", Address{Sampled: true}, moments{data, in(1)}, Verdict{Act: Name, By: MappedSometime, Trust: filemap.Late}},
		{"code that becomes data", Address{Sampled: true}, moments{in(1), data}, Verdict{Act: Name, By: MappedSometime, Trust: filemap.Late}},
		{"nothing", Address{Whole: true}, moments{nothing}, Verdict{Act: Drop, By: Unmapped, Reason: filemap.NoVMA}},
		{"nothing that is code", Address{}, moments{nothing}, Verdict{Act: Drop, By: Codeless, Reason: filemap.NotCode}},
		{"nothing, of another time", Address{Whole: true, Sure: Afterwards}, moments{nothing}, Verdict{Act: Drop, By: Unseen, Reason: filemap.NoAddressSpace}},
		{"a kernel's address, of another time", Address{Addr: 1<<64 - 4096, Sure: Afterwards}, moments{nothing}, Verdict{Act: Drop, By: NotUser, Reason: filemap.NoVMA}},
		{"not canonical, while executing", Address{Addr: 0x2f6c656e72656b2f, Time: Changing}, nil, Verdict{Act: Drop, By: NotUser, Reason: filemap.NoVMA}},
		{"while executing", Address{Time: Changing}, moments{in(1)}, Verdict{Act: Drop, By: Executing, Reason: filemap.Ambiguous}},
		{"records are missing", Address{Time: Doubted}, moments{in(1)}, Verdict{Act: Drop, By: Unrecorded, Reason: filemap.Lost}},
		{"records are missing, in the vsyscall page", Address{Addr: 1<<64 - 10<<20, Time: Doubted}, moments{memory(procmap.Vsyscall)}, Verdict{Act: Drop, By: Fileless, Reason: filemap.NoVMA}},
		{"vDSO", Address{}, moments{memory(procmap.VDSO)}, Verdict{Act: Drop, By: Fileless, Reason: filemap.VDSO}},
		{"what the kernel gives", Address{}, moments{memory(procmap.Special)}, Verdict{Act: Drop, By: Fileless, Reason: filemap.VDSO}},
		{"heap", Address{Sure: Afterwards}, moments{memory(procmap.Heap)}, Verdict{Act: Drop, By: Fileless, Reason: filemap.Anonymous}},
		{"shared memory without a name", Address{}, moments{memory(procmap.SharedAnon)}, Verdict{Act: Drop, By: Fileless, Reason: filemap.Anonymous}},
	} {
		a := c.known
		if a.Addr == 0 {
			a.Addr = user
		}
		add(&a, c.at)
		if got := a.Decide(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestAddressMemory: of memory that is made code, the mapping for code is kept.
func TestAddressMemory(t *testing.T) {
	var a Address
	if !a.In(procmap.Anonymous, false, false, true) || !a.In(procmap.Anonymous, true, false, true) || a.In(procmap.Anonymous, false, false, true) {
		t.Error("not the mapping for code")
	}
}

func randomGlimpse(r *rand.Rand) glimpse {
	kinds := []procmap.Kind{procmap.File, procmap.File, procmap.Deleted, procmap.Memfd, procmap.Anonymous, procmap.SharedAnon, procmap.VDSO}
	file := r.IntN(3)
	return glimpse{file: file, kind: kinds[(file+r.IntN(2)*3)%len(kinds)], exec: r.IntN(3) > 0, late: r.IntN(6) == 0, absent: r.IntN(4) == 0, known: r.IntN(3) > 0}
}

// TestAddressRandom: whatever is known, what Decide promises holds, and the order of the
// moments makes no difference.
func TestAddressRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 14))
	named := map[filemap.Trust]int{}
	for range 100_000 {
		a := Address{Addr: user, Sure: Sure(2 * r.IntN(2)), Whole: r.IntN(2) == 0, Sampled: r.IntN(2) == 0}
		if r.IntN(8) == 0 {
			a.Time = When(r.IntN(int(whenCount)))
		}
		if r.IntN(8) == 0 {
			a.Addr = []uint64{0, 4095, maxUser, 1 << 63}[r.IntN(4)]
		}
		var all []glimpse
		for range r.IntN(4) {
			all = append(all, randomGlimpse(r))
		}
		other := a
		kept := add(&a, all)
		v := a.Decide()
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if add(&other, all); other.Decide() != v {
			t.Fatalf("%+v of %+v: %+v, in another order %+v", a, all, v, other.Decide())
		}
		if !isSoundAddress(&a, all, kept, v) {
			t.Fatalf("%+v of %+v: %+v", a, all, v)
		}
		named[v.Trust]++
	}
	if named[filemap.Verified] == 0 || named[filemap.Late] == 0 {
		t.Errorf("named: %v", named)
	}
}

// isSoundAddress reports whether a verdict is one that the moments allow.
func isSoundAddress(a *Address, all []glimpse, kept glimpse, v Verdict) bool {
	if v.Act == Drop {
		return v.Trust == filemap.NoTrust && v.Reason != filemap.NoReason
	}
	code, always := false, !a.Sampled
	for _, g := range all {
		switch {
		case g.absent && !g.known, !g.absent && (!g.isSame(kept) || !g.kind.HasFile()):
			return false
		case g.absent:
			continue
		default:
			code, always = code || g.exec, always && g.exec && !g.late
		}
	}
	verified := always && a.Sure == Proven
	return v.Act == Name && v.Reason == filemap.NoReason && a.Time == Known && code && (v.Trust == filemap.Verified) == verified &&
		(verified || v.Trust == filemap.Late)
}

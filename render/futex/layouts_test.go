package futex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/symbol"
	"ustack/render/futex"
	"ustack/tracefs"
)

// changing is a process that has one library at an address, and another one from a time
// on. From unsure on it is not known which.
type changing struct {
	oneProcess
	change, unsure tracefs.Time
}

func (p changing) at(t tracefs.Time) filemap.Layout {
	f := &filemap.File{Path: "/one"}
	if t >= p.change {
		f = &filemap.File{Path: "/two"}
	}
	return filemap.Layout{{Start: 0x1000, End: 0x2000, File: f}}
}

func (p changing) Layout(_, _ int32, _ []byte, at tracefs.Time, _ bool, _ uint64) (filemap.Layout, filemap.Trust) {
	return p.at(at), filemap.Verified
}

func (p changing) Stays(_, _ int32, _ []byte, at tracefs.Time, _ bool, _ uint64, l filemap.Layout) proof.Stay {
	switch {
	case at >= p.unsure:
		return proof.Assumed
	case l[0].File.Path != p.at(at)[0].File.Path:
		return proof.Gone
	}
	return proof.Stayed
}

// ofFile names variables by the file that they are in.
type ofFile struct{}

func (ofFile) Place(filemap.Layout, uint64) (*filemap.File, uint64, bool) { return nil, 0, false }

func (ofFile) Variable(l filemap.Layout, _ uint64) *symbol.Variable {
	return &symbol.Variable{Name: "lock" + l[0].File.Path, File: l[0].File}
}

// TestLocksOfLibraries: libraries that follow each other in one place have a lock each.
// Where that cannot be known, the name is late.
func TestLocksOfLibraries(t *testing.T) {
	const wait = "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)"
	var in strings.Builder
	for _, second := range []string{"0", "1", "2", "3"} {
		in.WriteString(strings.ReplaceAll(waitWith(wait, 1, true), "    0.000", "    "+second+".000"))
	}
	const second, never = tracefs.Time(1e9), tracefs.Time(1 << 62)
	for name, c := range map[string]struct {
		change, unsure tracefs.Time
		want           string
	}{
		"one library":             {never, never, "[4 waits on lock/one verified]"},
		"two libraries":           {3 * second / 2, never, "[2 waits on lock/one verified 2 waits on lock/two verified]"},
		"it is unknown at last":   {never, 5 * second / 2, "[4 waits on lock/one late]"},
		"unknown when it changes": {5 * second / 2, 3 * second / 2, "[4 waits on lock/one late]"},
	} {
		a := analyseText(t, futex.Options{Mappings: oneProcess{}, Layouts: changing{change: c.change, unsure: c.unsure}}, in.String())
		a.NameLocks(ofFile{})
		var got []string
		for _, l := range a.Report(futex.View{}).Locks {
			got = append(got, fmt.Sprintf("%d waits on %s %s", l.Waits, l.Variable.Name, l.VariableTrust))
		}
		slices.Sort(got)
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

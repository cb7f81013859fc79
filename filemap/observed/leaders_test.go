package observed

import (
	"os"
	"path/filepath"
	"testing"

	"ustack/tracefs"
)

// loadDump loads a dump that has these files.
func loadDump(t *testing.T, files map[string]string) *Dump {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestLeaders: in the dump of another boot, a process can have the number of another one.
// The name of its first thread shows it for all of its threads.
func TestLeaders(t *testing.T) {
	dump := map[string]string{
		"10.maps": "### t=1.000000000 pid=10 comm=sh exe=/sh\n" + libA +
			"### t=2.000000000 pid=10 comm=gomutex exe=/g\n" + libA + "### t=9.000000000 pid=10 comm=gomutex exe=/g\n" + libA,
		"tids.txt": "10 10\n11 10\n",
	}
	const second = tracefs.Time(1e9)
	for _, c := range []struct {
		what    string
		names   []naming // each is seen at its times
		at      tracefs.Time
		strange bool
	}{
		{"no name is known", nil, 5 * second, false},
		{"the dump has the name", []naming{{3 * second, 6 * second, "gomutex"}}, 5 * second, false},
		{"the dump has another name", []naming{{3 * second, 6 * second, "prog"}}, 5 * second, true},
		{"it can have changed before", []naming{{1 * second, 2 * second, "gomutex"}, {7 * second, 8 * second, "prog"}}, 5 * second, false},
		{"both names are others", []naming{{1 * second, 2 * second, "other"}, {7 * second, 8 * second, "prog"}}, 5 * second, true},
		{"before its first name", []naming{{6 * second, 7 * second, "prog"}}, 5 * second, false},
		{"after its last name", []naming{{3 * second, 4 * second, "prog"}}, 5 * second, false},
		{"a former name of the dump", []naming{{3 * second, 6 * second, "sh"}}, 5 * second, true},
	} {
		d := loadDump(t, dump)
		e, err := New(d, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range c.names {
			e.Called(10, []byte(n.comm), n.first)
			e.Called(10, []byte(n.comm), n.last)
		}
		if m := d.at(11, c.at, true, []byte("worker")); m.strange != c.strange || m.covered == c.strange {
			t.Errorf("%s: strange is %v, covered %v", c.what, m.strange, m.covered)
		}
		if m := d.at(11, c.at, false, nil); m.strange {
			t.Errorf("%s: strange without a time", c.what)
		}
	}
}

// TestLeadersBound: the names that are kept are bounded.
func TestLeadersBound(t *testing.T) {
	l := leaders{names: make(map[int32][]naming)}
	for i := range maxNamings + 10 {
		l.note(7, string(rune('a'+i%2)), tracefs.Time(i))
	}
	l.note(7, "b", 2*maxNamings)
	l.note(7, "a", 1) // out of order
	if n := len(l.names[7]); n != maxNamings || len(l.at(7, maxNamings+5)) > 0 {
		t.Errorf("%d names", n)
	}
}

// TestOfProcess: a thread that the trace has in another process than the dump is another one.
func TestOfProcess(t *testing.T) {
	d := loadDump(t, map[string]string{
		"10.maps": "### t=1.000000000 pid=10 comm=a exe=/a\n" + libA, "20.maps": "### t=1.000000000 pid=20 comm=b exe=/b\n" + libA,
		"tids.txt": "10 10\n11 10\n20 20\n",
	})
	for _, c := range []struct{ tid, tgid, want int32 }{
		{11, 10, 11}, {11, tracefs.NoTID, 11}, {11, 20, 20}, {11, 30, 30}, {12, 10, 10}, {12, tracefs.NoTID, tracefs.NoTID}, {20, 10, 10},
	} {
		if got := d.ofProcess(c.tid, c.tgid); got != c.want {
			t.Errorf("thread %d of %d is looked up as %d, want %d", c.tid, c.tgid, got, c.want)
		}
	}
}

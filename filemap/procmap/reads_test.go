package procmap

import "testing"

// TestReads: a note is read as it was written, and nothing else is taken for one.
func TestReads(t *testing.T) {
	want := Reads{From: 5_000_000_001, Until: 6_250_000_000, Every: 8_000_000}
	line := want.Append(nil)
	if string(line) != "# read from=5.000000001 until=6.250000000 every=0.008000000" {
		t.Errorf("%s", line)
	}
	if got, ok := ParseReads(append(line, '\n')); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, bad := range []string{
		"", "# ", "# fe:00 26 build_id=2f7c", "# read", "# read from=1 until=2", "# read from=2 until=1 every=1",
		"# read from=1 until=x every=1", "# read from=-1 until=2 every=1", "# read from=1 until=2 every=1 ", "# read from= until= every=",
	} {
		if r, ok := ParseReads([]byte(bad)); ok {
			t.Errorf("%q is %+v", bad, r)
		}
	}
}

// FuzzReads: what is read of a line is written as a line that is read as the same.
func FuzzReads(f *testing.F) {
	f.Add([]byte("# read from=5.000000001 until=6.25 every=0.008"))
	f.Add([]byte("# read from=1 until=2 every=99999999999999"))
	f.Add([]byte("# fe:00 26 build_id=2f7c"))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, ok := ParseReads(line)
		if !ok {
			return
		}
		if again, ok := ParseReads(r.Append(nil)); !ok || again != r {
			t.Errorf("%q is %+v, and then %+v, %v", line, r, again, ok)
		}
	})
}

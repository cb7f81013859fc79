package budget

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/render/outfile"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestParse reads budgets, and refuses what is none.
func TestParse(t *testing.T) {
	for word, want := range map[string]Limits{
		"24MB/day,32/day": {24 << 20, 32},
		"32/day,24M/day":  {24 << 20, 32},
		"64K/day":         {Least, 0},
		"5/day":           {0, 5},
	} {
		if got, err := Parse(word); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", word, got, err, want)
		}
	}
	for _, word := range []string{"", "24MB", "24MB/hour", "0/day", "-1/day", "-1M/day", "1/day,2/day", "1M/day,2M/day", "1/day,", "x/day", "63K/day", "9999999999999G/day"} {
		if got, err := Parse(word); err == nil {
			t.Errorf("%q: %+v", word, got)
		}
	}
}

// opened opens a state. A crash closes its file, and does nothing else.
func opened(t *testing.T, path string, l Limits, m *machine) *Book {
	t.Helper()
	b, warning, err := Open(path, l, m.now)
	if err != nil || warning != "" {
		t.Fatalf("warning %q, %v", warning, err)
	}
	return b
}

func (b *Book) crash(t *testing.T) { t.Helper(); check(t, b.file.Close()) }

// create creates the file of a report.
func create(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := outfile.New(name)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestUse uses a budget up, to the byte, over restarts.
func TestUse(t *testing.T) {
	dir := t.TempDir()
	state, m, limits := filepath.Join(dir, "state"), &machine{boot: "a"}, Limits{3 << 20, 3}
	b := opened(t, state, limits, m)
	if st, err := os.Stat(state); err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	report := func(i, size int) {
		t.Helper()
		f := create(t, filepath.Join(dir, fmt.Sprint("r", i)))
		r, err := b.Begin(f, f.Name(), "")
		check(t, err)
		check(t, r.Take(size/2))
		check(t, r.Take(size-size/2))
		check(t, r.End())
	}
	report(1, 100)
	check(t, b.Close())
	b = opened(t, state, limits, m)
	report(2, 2<<20)
	if l, err := b.Left(); err != nil || l.Bytes != 1<<20-100 || l.Reports != 1 {
		t.Errorf("left is %+v, %v", l, err)
	}
	f := create(t, filepath.Join(dir, "last"))
	r, err := b.Begin(f, f.Name(), "")
	check(t, err)
	check(t, r.Take(1<<20-101))
	if err := r.Take(2); !errors.Is(err, ErrSpent) {
		t.Errorf("two bytes of one: %v", err)
	}
	check(t, r.Take(1))
	check(t, r.End())
	if _, err := b.Begin(f, f.Name(), ""); !errors.Is(err, ErrSpent) {
		t.Errorf("a report too many: %v", err)
	}
	check(t, b.Refuse())
	check(t, b.Close())
	m.truth += dayLength
	b = opened(t, state, limits, m)
	if l, err := b.Left(); err != nil || l.Bytes != 3<<20 || l.Reports != 3 || b.Counts() != (Counts{Refused: 1}) {
		t.Errorf("on another day, left is %+v, counts %+v, %v", l, b.Counts(), err)
	}
	check(t, b.Close())
}

// TestCrash: what a recorder that was killed had reserved counts as far as it was written, or all
// of it if that cannot be known.
func TestCrash(t *testing.T) {
	const size = 1000
	for name, c := range map[string]struct {
		write, take int
		then        func(temp, final string) error
		bytes       int64
		reports     int64
		counted     bool
	}{
		"before a byte": {0, size, nil, 0, 0, false},
		"in the middle": {size, size, nil, size, 1, true},
		"between":       {size / 2, size, nil, size / 2, 1, true},
		"more chunks":   {chunk + size, chunk + size, nil, chunk + size, 1, true},
		"renamed":       {size, size, os.Rename, size, 1, true},
		"gone":          {size, size, func(temp, _ string) error { return os.Remove(temp) }, chunk, 1, true},
		"another's": {size, size, func(temp, _ string) error {
			return errors.Join(os.Rename(temp, temp+"1"), os.WriteFile(temp, nil, 0o600))
		}, chunk, 1, true},
		"a link":          {size, size, func(temp, final string) error { return errors.Join(os.Remove(temp), os.Symlink("/etc/passwd", temp)) }, chunk, 1, true},
		"has grown since": {size, size, func(temp, _ string) error { return os.Truncate(temp, chunk+1) }, chunk, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			state, m := filepath.Join(dir, "state"), &machine{boot: "a"}
			b := opened(t, state, Limits{8 << 20, 8}, m)
			check(t, b.Refuse())
			final := filepath.Join(dir, "report")
			f := create(t, final+".partial")
			r, err := b.Begin(f, final, "")
			check(t, err)
			check(t, r.Take(c.take))
			_, err = f.Write(make([]byte, c.write))
			check(t, err)
			if c.then != nil {
				check(t, c.then(f.Name(), final))
			}
			b.crash(t)
			b = opened(t, state, Limits{8 << 20, 8}, m)
			if b.state.Bytes != c.bytes || b.state.Reports != c.reports {
				t.Errorf("%d bytes and %d reports are used, want %d and %d", b.state.Bytes, b.state.Reports, c.bytes, c.reports)
			}
			if counted := b.Counts() == (Counts{}); counted != c.counted {
				t.Errorf("the counts are %+v", b.Counts())
			}
			check(t, b.Close())
		})
	}
}

// TestOverMidnight: what is given back goes to the day of which it was taken.
func TestOverMidnight(t *testing.T) {
	for _, crash := range []bool{false, true} {
		dir := t.TempDir()
		state, m, limits := filepath.Join(dir, "state"), &machine{boot: "a"}, Limits{2 << 20, 2}
		b := opened(t, state, limits, m)
		f := create(t, filepath.Join(dir, "report"))
		r, err := b.Begin(f, f.Name(), "")
		check(t, err)
		check(t, r.Take(10))
		m.truth += dayLength
		if crash {
			b.crash(t)
			b = opened(t, state, limits, m)
		} else {
			check(t, r.End())
		}
		if b.state.Bytes != 0 || b.state.Reports != 0 {
			t.Errorf("crash %t: %d bytes and %d reports are used on the next day", crash, b.state.Bytes, b.state.Reports)
		}
		check(t, b.Close())
	}
}

// TestDamaged: whatever is in the file, there is no second budget today, and there is one tomorrow.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	m, limits := &machine{boot: "a"}, Limits{1 << 20, 4}
	b := opened(t, good, limits, m)
	check(t, b.Close())
	text, err := os.ReadFile(good)
	check(t, err)
	line := strings.TrimRight(string(text[:slotSize]), "\x00")
	slot := func(lines string) string {
		return fmt.Sprintf(slotHead, crc32.ChecksumIEEE([]byte(lines)), len(lines)) + lines
	}
	for name, bad := range map[string]string{
		"no line":       "x",
		"zeros":         string(make([]byte, 2*slotSize)),
		"a changed":     strings.Replace(line, "written=1", "written=2", 1),
		"no checksum":   line[strings.Index(line, "\n")+1:],
		"negative":      slot("written=1\nbytes=-1\n"),
		"an age":        slot("written=1\nage_ns=86400000000000\n"),
		"never written": slot("bytes=1\n"),
		"no key":        slot("written=1\nx=1\n"),
		"no number":     slot("written=1\nbytes=9223372036854775808\n"),
		"no text":       slot("written=1\nboot_id=x\n"),
		"many causes":   slot("written=1\n" + strings.Repeat("cause=\"a\"\n", mostCauses+1)),
		"a long cause":  slot("written=1\ncause=\"" + strings.Repeat("a", mostCause+1) + "\"\n"),
		"duplicates":    slot("written=1\nduplicates=-1\n"),
		"of a version":  strings.Replace(line, "state 1", "state 2", 1),
		"length":        strings.Replace(line, "\n", "9\n", 1),
		"much":          strings.Repeat("x", 1<<20),
	} {
		path, m := filepath.Join(dir, name), &machine{boot: "a"}
		check(t, os.WriteFile(path, []byte(bad), 0o600))
		b, warning, err := Open(path, limits, m.now)
		check(t, err)
		if l, err := b.Left(); err != nil || l.Bytes != 0 || l.Reports != 0 || !strings.Contains(warning, "damaged") {
			t.Errorf("%s: left is %+v, warning %q, %v", name, l, warning, err)
		}
		check(t, b.Close())
		m.truth += dayLength
		b = opened(t, path, limits, m)
		if l, err := b.Left(); err != nil || l.Bytes != limits.Bytes {
			t.Errorf("%s: tomorrow, left is %+v, %v", name, l, err)
		}
		check(t, b.Close())
	}
}

// TestTorn: when one slot was not written whole, the one before it counts.
func TestTorn(t *testing.T) {
	path, m := filepath.Join(t.TempDir(), "state"), &machine{boot: "a"}
	b := opened(t, path, Limits{}, m)
	for b.state.Written < 5 {
		check(t, b.Refuse())
	}
	last := b.state
	_, err := b.file.WriteAt([]byte("torn"), (last.Written-1)%slots*slotSize+40)
	check(t, err)
	b.crash(t)
	b = opened(t, path, Limits{}, m) // writes that slot anew
	if want := last.Refused - 1; b.state.Refused != want || b.state.Written != last.Written {
		t.Errorf("%d refused, want %d", b.state.Refused, want)
	}
	check(t, b.Close())
}

// TestHostile: what others can have put in the place of the file is refused, and stays as it is.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	check(t, os.WriteFile(victim, []byte("precious"), 0o600))
	for name, c := range map[string]struct {
		put  func(path string) error
		want string
	}{
		"link":     {func(p string) error { return os.Symlink(victim, p) }, "symbolic link"},
		"dangling": {func(p string) error { return os.Symlink(filepath.Join(dir, "missing"), p) }, "symbolic link"},
		"hard":     {func(p string) error { return os.Link(victim, p) }, "2 names"},
		"fifo":     {func(p string) error { return unix.Mkfifo(p, 0o600) }, "regular"},
		"dir":      {func(p string) error { return os.Mkdir(p, 0o700) }, "directory"},
		"open":     {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o666)) }, "mode"},
		"shared": {func(p string) error {
			b, _, err := Open(p, Limits{}, new(machine).now)
			t.Cleanup(func() { b.file.Close() })
			return err
		}, "another recording"},
	} {
		path := filepath.Join(dir, name)
		check(t, c.put(path))
		_, _, err := Open(path, Limits{}, new(machine).now)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if text, err := os.ReadFile(victim); string(text) != "precious" || err != nil {
		t.Errorf("the victim is %q, %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "missing")); err == nil {
		t.Error("a file was created through a link")
	}
}

// TestOthersFile: the file of another user is refused.
func TestOthersFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	path := filepath.Join(t.TempDir(), "state")
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, os.Chown(path, 65534, 65534))
	if _, _, err := Open(path, Limits{}, new(machine).now); err == nil || !strings.Contains(err.Error(), "user 65534") {
		t.Error(err)
	}
}

// TestUnlimited: without limits, all is left.
func TestUnlimited(t *testing.T) {
	b := opened(t, filepath.Join(t.TempDir(), "state"), Limits{}, &machine{boot: "a"})
	if l, err := b.Left(); err != nil || l.Bytes != math.MaxInt64 || l.Reports != math.MaxInt64 {
		t.Errorf("%+v, %v", l, err)
	}
	check(t, b.Close())
}

// TestCauses: the causes of the complete reports of a day are kept, also of a recorder that was
// killed, but no more than a bounded number, and what was counted is on the disk.
func TestCauses(t *testing.T) {
	dir := t.TempDir()
	state, m, limits := filepath.Join(dir, "state"), &machine{boot: "a"}, Limits{}
	b := opened(t, state, limits, m)
	report := func(cause string, then func(f *os.File, final string, r *Report)) {
		t.Helper()
		final := filepath.Join(dir, "r"+cause)
		f := create(t, final+".partial")
		r, err := b.Begin(f, final, cause)
		check(t, err)
		check(t, r.Take(1))
		_, err = f.WriteString("x")
		check(t, err)
		then(f, final, r)
	}
	finish := func(f *os.File, final string, r *Report) {
		check(t, os.Rename(f.Name(), final))
		check(t, r.End())
	}
	crash := func(*os.File, string, *Report) {
		b.crash(t)
		b = opened(t, state, limits, m)
	}
	want := func(want ...string) {
		t.Helper()
		if got, err := b.Causes(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	report("whole", finish)
	report("", finish)
	report("cut", func(_ *os.File, _ string, r *Report) { check(t, r.End()) })
	report("killed", crash)
	report("killed at the end", func(f *os.File, final string, r *Report) {
		check(t, os.Rename(f.Name(), final))
		crash(f, final, r)
	})
	report(strings.Repeat("x", mostCause+1), finish) // too long to be kept
	want("whole", "killed at the end")
	check(t, b.Duplicate())
	check(t, b.Duplicate())
	b.crash(t)
	b = opened(t, state, limits, m)
	if b.Counts() != (Counts{Duplicates: 2}) {
		t.Errorf("counts %+v", b.Counts())
	}
	var last []string
	for i := range mostCauses + 3 {
		text := fmt.Sprintf("%0*d", mostCause, i)
		last = append(last, text)
		report(text, finish)
	}
	want(last[3:]...)
	b.state.Boot, b.state.WallBoot = strings.Repeat("b", mostText/2), strings.Repeat("w", mostText/2)
	if text := b.state.text(); len(text) > slotSize {
		t.Errorf("a slot of %d bytes", len(text))
	}
	b.state.Boot, b.state.WallBoot = m.boot, ""
	m.truth += dayLength
	want()
	report("of yesterday", func(f *os.File, final string, r *Report) {
		check(t, os.Rename(f.Name(), final))
		m.truth += dayLength
		crash(f, final, r)
	})
	want() // the new day has no report with this cause
	check(t, b.Close())
}

package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a Directory that copies reports that begin with "good".
type fixture struct {
	*Directory
	mu      sync.Mutex
	results map[string]Result
	errs    map[string]error
	done    map[string]int // how often Do was called
	hook    func(Report)   // called by Do
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{Directory: &Directory{
		Dir: filepath.Join(t.TempDir(), "in"), Out: filepath.Join(t.TempDir(), "out"), Suffix: ".text",
		Settle: 2 * time.Millisecond, GiveUp: 20 * time.Millisecond,
	}}
	f.results, f.errs, f.done = make(map[string]Result), make(map[string]error), make(map[string]int)
	check(t, os.Mkdir(f.Dir, 0o700))
	f.Log = func(name string, what Result, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.results[name], f.errs[name] = what, err
	}
	f.Do = func(r Report, out io.Writer) error {
		f.mu.Lock()
		f.done[r.Name]++
		f.mu.Unlock()
		if f.hook != nil {
			f.hook(r)
		}
		b, err := os.ReadFile(r.Copy)
		if err == nil && !bytes.HasPrefix(b, []byte("good")) {
			err = errors.New(r.Path + ": not good: \x1b[31m")
		}
		if err == nil {
			_, err = out.Write(b)
		}
		return err
	}
	return f
}

// put puts a report there.
func (f *fixture) put(t *testing.T, name, text string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(f.Dir, name), []byte(text), 0o600))
}

// result is the result of a report, "" if there is none.
func (f *fixture) result(name string) string {
	b, _ := os.ReadFile(filepath.Join(f.Out, f.resultName(name)))
	return string(b)
}

// all runs until all that is there is processed.
func (f *fixture) all(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := f.Run(ctx, true)
	if ctx.Err() != nil {
		t.Fatal("it never ends")
	}
	return err
}

// files are the names in a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// odd are names that untrusted users can choose.
var odd = []string{
	strings.Repeat("n", 255), strings.Repeat("n", 254), strings.Repeat("n", 250), strings.Repeat("ü", 127), strings.Repeat("n", maxName+1),
	"line\nfeed", "\x1b[31mred", "\xff\xfe", "-rf", "--out=x", "a b", "*", "x.text", "x.reason", "x~0123456789abcdef0123456789abcdef",
	"\u202egpj", "'; rm -rf ~; '", "$(id)", "rejected.reason", "..x"[2:], "a\\012b", strings.Repeat("\n", 255),
}

// TestNames: whatever a report is called, it is processed once, and its result
// has a name that is safe and no other report's.
func TestNames(t *testing.T) {
	f := newFixture(t)
	for i, name := range odd {
		f.put(t, name, fmt.Sprint("good ", i))
	}
	for range 2 {
		check(t, f.all(t))
	}
	for i, name := range odd {
		if got := f.result(name); got != fmt.Sprint("good ", i) || f.done[name] != 1 || f.results[name] != Done || f.errs[name] != nil {
			t.Errorf("%q: result %q, %d times, %v", name, got, f.done[name], f.errs[name])
		}
	}
	if names := files(t, f.Out); len(names) != len(odd) {
		t.Errorf("%d results of %d reports: %q", len(names), len(odd), names)
	}
}

// TestRejectNames: the same for reports that are rejected, again and again.
func TestRejectNames(t *testing.T) {
	f := newFixture(t)
	const again = 3
	for range again {
		for _, name := range odd {
			f.put(t, name, "bad")
		}
		check(t, f.all(t))
		if left := files(t, f.Dir); len(left) != 1 {
			t.Errorf("%q is left", left)
		}
	}
	reports, reasons := 0, 0
	for _, name := range files(t, filepath.Join(f.Dir, rejected)) {
		b, err := os.ReadFile(filepath.Join(f.Dir, rejected, name))
		check(t, err)
		switch text := string(b); {
		case text == "bad":
			reports++
		case strings.HasSuffix(name, reasonSuffix) && strings.HasSuffix(text, ": not good: \\033[31m\n") && strings.Count(text, "\n") == 1:
			reasons++
		default:
			t.Errorf("%q: %q", name, text)
		}
	}
	if want := again * len(odd); reports != want || reasons != want {
		t.Errorf("%d reports, %d reasons, want %d", reports, reasons, want)
	}
}

// FuzzOwnName: two reports never have the same name, and none is unsafe.
func FuzzOwnName(f *testing.F) {
	for _, name := range odd {
		f.Add(name, ownName(name))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !wanted(a) || !wanted(b) || len(a) > 255 || len(b) > 255 || strings.ContainsAny(a+b, "/\x00") {
			return
		}
		own := ownName(a)
		if len(own) > maxName || strings.IndexFunc(own, unfit) >= 0 || own[0] == '-' || own[0] == '.' {
			t.Errorf("%q is %q", a, own)
		}
		if a != b && own == ownName(b) {
			t.Errorf("%q and %q are %q", a, b, own)
		}
	})
}

// TestSwapped: a report that was replaced while it was found to be bad is not
// moved in its place.
func TestSwapped(t *testing.T) {
	f := newFixture(t)
	f.put(t, "report", "bad")
	f.hook = func(Report) {
		if f.done["report"] == 1 {
			f.put(t, ".new", "good")
			check(t, os.Rename(filepath.Join(f.Dir, ".new"), filepath.Join(f.Dir, "report")))
		}
	}
	check(t, f.all(t))
	if f.result("report") != "good" || len(files(t, filepath.Join(f.Dir, rejected))) > 0 {
		t.Errorf("result %q, %v", f.result("report"), f.errs["report"])
	}
}

// TestChanging: what is processed is what was there, whatever is written
// meanwhile, and is what was found to be settled.
func TestChanging(t *testing.T) {
	f := newFixture(t)
	f.put(t, "report", "good")
	name := filepath.Join(f.Dir, "report")
	f.hook = func(r Report) {
		check(t, os.WriteFile(name, []byte("bad and longer"), 0o600))
		if f, err := os.OpenFile(r.Copy, os.O_RDONLY, 0); err != nil {
			t.Error(err)
		} else {
			_ = f.Close()
		}
	}
	check(t, f.all(t))
	if f.result("report") != "good" || f.done["report"] != 1 {
		t.Errorf("result %q, %d times", f.result("report"), f.done["report"])
	}

	d := newFixture(t)
	d.put(t, "report", "good")
	check(t, d.prepare())
	defer d.close()
	st, err := d.inbox.stat("report")
	check(t, err)
	is := versionOf(&st)
	for what, change := range map[string]func(name string) error{
		"written": func(name string) error { return os.WriteFile(name, []byte("goo"), 0o600) },
		"replaced": func(name string) error {
			return errors.Join(os.WriteFile(name+"x", []byte("good"), 0o600), os.Rename(name+"x", name))
		},
		"linked": func(name string) error { return os.Link(name, name+".link") },
	} {
		check(t, change(filepath.Join(d.Dir, "report")))
		if _, err := d.openReport("report", &is); !errors.Is(err, errChanged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestGrowing: a file that is written all the time keeps no other one waiting.
func TestGrowing(t *testing.T) {
	f := newFixture(t)
	f.Settle = 20 * time.Millisecond
	f.put(t, "growing", "good")
	f.put(t, "other", "good")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var writer sync.WaitGroup
	writer.Go(func() {
		w, err := os.OpenFile(filepath.Join(f.Dir, "growing"), os.O_WRONLY|os.O_APPEND, 0)
		check(t, err)
		defer w.Close()
		for ctx.Err() == nil {
			_, _ = w.WriteString(strings.Repeat("more", 1<<10))
			time.Sleep(time.Millisecond)
		}
	})
	f.hook = func(r Report) {
		if r.Name == "other" {
			cancel()
		}
	}
	check(t, f.Run(ctx, false))
	writer.Wait()
	if f.done["other"] != 1 {
		t.Errorf("%v were processed", f.done)
	}
}

// TestMany: more reports than are waited for at a time, and files that are written
// all the time among them: each has its turn.
func TestMany(t *testing.T) {
	f := newFixture(t)
	f.room = 8
	f.Settle = 10 * time.Millisecond
	const good, busy = 60, 20
	for i := range busy {
		f.put(t, fmt.Sprint("busy", i), "good")
	}
	for i := range good {
		f.put(t, fmt.Sprint("good", i), "good")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			f.put(t, fmt.Sprint("busy", n%busy), fmt.Sprint("good", n))
			time.Sleep(50 * time.Microsecond)
		}
	})
	left := good
	most := 0
	f.hook = func(r Report) {
		most = max(most, len(f.waiting))
		if strings.HasPrefix(r.Name, "good") {
			if left--; left == 0 {
				cancel()
			}
		}
	}
	check(t, f.Run(ctx, false))
	writer.Wait()
	if left > 0 || most > f.room {
		t.Errorf("%d of %d are left; at most %d were waited for", left, good, most)
	}
}

// TestResultsFail: a result that cannot be written ends nothing, is tried again,
// and says nothing against the report.
func TestResultsFail(t *testing.T) {
	f := newFixture(t)
	f.put(t, "large", "good "+strings.Repeat("x", 10<<10))
	f.put(t, "small", "good")
	full := errors.New("disk full")
	do := f.Do
	tries := 0
	f.Do = func(r Report, out io.Writer) error {
		if r.Name == "large" {
			if tries++; tries < 3 {
				k := out.(*keepError)
				k.w = failing{full}
			}
		}
		return do(r, out)
	}
	if err := f.all(t); !errors.Is(err, full) || f.result("small") != "good" || f.result("large") != "" {
		t.Errorf("%v, results %q and %q", err, f.result("small"), f.result("large"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	log := f.Log
	f.Log = func(name string, what Result, err error) {
		log(name, what, err)
		if what == Delayed && !errors.Is(err, full) {
			t.Error(err)
		}
		if what == Done {
			cancel()
		}
	}
	f.failed = nil
	check(t, f.Run(ctx, false))
	if f.result("large") == "" || tries != 3 || len(files(t, f.Out)) != 2 || len(files(t, filepath.Join(f.Dir, rejected))) > 0 {
		t.Errorf("%d tries, results %q", tries, files(t, f.Out))
	}
	f.put(t, "last", "good")
	f.hook = func(Report) { check(t, os.RemoveAll(f.Out)) }
	if err := f.Run(t.Context(), false); err == nil || !strings.Contains(err.Error(), "the directory is gone") {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestSizes: what is larger than allowed is rejected unread, and a small file
// with a huge hole is copied in no time and room.
func TestSizes(t *testing.T) {
	f := newFixture(t)
	f.MaxSize = 10
	f.put(t, "large", "good, and more")
	f.put(t, "empty", "")
	check(t, f.all(t))
	if !errors.Is(f.errs["large"], ErrTooLarge) || !errors.Is(f.errs["empty"], errEmpty) || len(f.done) > 0 {
		t.Errorf("%v, %v", f.errs, f.done)
	}

	f = newFixture(t)
	f.put(t, "hole", "good")
	const huge = 1 << 40
	if err := os.Truncate(filepath.Join(f.Dir, "hole"), huge); err != nil {
		t.Skip(err)
	}
	f.Do = func(r Report, _ io.Writer) error {
		var st unix.Stat_t
		check(t, unix.Stat(r.Copy, &st))
		const block, most = 512, 1 << 20
		if st.Size != huge || st.Blocks*block > most {
			t.Errorf("the copy has %d bytes and %d blocks", st.Size, st.Blocks)
		}
		f.done[r.Name]++
		return nil
	}
	check(t, f.all(t))
	if f.done["hole"] != 1 {
		t.Error(f.errs["hole"])
	}
}

// TestCopy: a copy with holes has the same bytes.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		in, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		check(t, err)
		const page = 4096
		size := int64(i) * 3 * page / 2
		for at := int64(0); at+10 < size; at += int64(1+i%5) * page {
			_, err := in.WriteAt([]byte("something"), at+int64(i))
			check(t, err)
		}
		check(t, in.Truncate(size))
		to, err := os.Create(in.Name() + ".copy")
		check(t, errors.Join(err, to.Truncate(size), copyData(in, to, size)))
		want, err := os.ReadFile(in.Name())
		check(t, err)
		if got, err := os.ReadFile(to.Name()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d: %d bytes of %d differ, %v", i, len(got), len(want), err)
		}
		check(t, errors.Join(in.Close(), to.Close()))
	}
}

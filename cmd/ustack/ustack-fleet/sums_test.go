package main

import (
	"encoding/csv"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
)

// TestAtMost: a duration is rounded up by less than one in 64, and those that are longer are not
// less then.
func TestAtMost(t *testing.T) {
	var list []int64
	for n := range 63 {
		for _, more := range []int64{-1, 0, 1, 1 << n / 3, 1 << n / 2, 1<<n - 2} {
			list = append(list, max(1<<n+more, 0))
		}
	}
	slices.Sort(list)
	before := int64(0)
	for _, ns := range list {
		most := atMost(ns)
		if most < ns || most-ns > ns/64 || most < before || atMost(most) != most || bits.Len64(uint64(most)) != bits.Len64(uint64(ns)) {
			t.Errorf("%d: at most %d, the one before %d", ns, most, before)
		}
		before = most
	}
}

// answerOf returns the rows of an answer, and the time of p99 of each if there is one, which is
// taken out.
func answerOf(t *testing.T, args ...string) (rows [][]string, p99 []int64) {
	t.Helper()
	text, _ := ran(t, command.OK, append([]string{"fleet", "--format=csv", "--top=10000"}, args...)...)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %v", text, err)
	}
	at := slices.Index(rows[0], "p99_ns")
	for i, row := range rows[1:] {
		if at < 0 {
			break
		}
		n, err := strconv.ParseInt(row[at], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		p99 = append(p99, n)
		rows[i+1] = slices.Delete(row, at, at+1)
	}
	return rows, p99
}

// sameAsSamples compares the answers from sums with those from samples.
func sameAsSamples(t *testing.T, db string, systems ...string) {
	t.Helper()
	questions := [][]string{{"top"}, {"top", "--locks"}, {"top", "--by=devices"}, {"top", "--by=waits"}, {"top", "--by=waits", "--locks"}}
	if len(systems) > 1 {
		questions = append(questions, []string{"diff", "--a=" + systems[0], "--b=" + systems[1]}, []string{"diff", "--locks", "--a=" + systems[1], "--b=" + systems[0]})
	}
	for _, q := range questions {
		got, gotP99 := answerOf(t, append(q, db)...)
		want, wantP99 := answerOf(t, append(q, "--exact", db)...)
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: sums say\n%s, samples\n%s", q, got, want)
		}
		for i, ns := range wantP99 {
			if gotP99[i] != atMost(ns) {
				t.Errorf("%s: p99 of row %d is %d, want at most %d", q, i, gotP99[i], ns)
			}
		}
	}
}

// TestSums: answers from sums are those from samples, also where waits are in several reports, and
// of a device with several ones. Tables of an older version, without sums, get them by the next
// export, and have the same answers before and after that.
func TestSums(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	shared := sharedReports(t, dir, "a", "one", "A", [2]int{0, 60}, [2]int{30, 90}, [2]int{50, 100}, [2]int{30, 90})
	more := append(sharedReports(t, dir, "a", "two", "A", [2]int{30, 90}), sharedReports(t, dir, "b", "one", "B", [2]int{0, 50}, [2]int{50, 100})...)
	lab := []string{testdata + "/lab-live/hash/save-text/trace.txt.zst"}
	for _, files := range [][]string{shared[1:3], more, lab, shared} {
		ran(t, command.OK, append([]string{"export", "-q", "-o", db}, files...)...)
	}
	sameAsSamples(t, db, "A", "B")

	parts, err := partsOf(db)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := ran(t, command.OK, "fleet", "top", db)
	for _, part := range parts[1:] {
		for _, table := range []string{tableSums, tableDurations} {
			name := filepath.Join(part, table+tableSuffix)
			for _, name := range []string{name, name + sumSuffix} {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	check := func(sums bool) {
		t.Helper()
		if has, err := haveSums(parts); err != nil || has != sums {
			t.Errorf("%v, %v", has, err)
		}
		if got, _ := ran(t, command.OK, "fleet", "top", db); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if text, _ := ran(t, command.OK, "fleet", "top", "--sql", db); strings.Contains(text, "sums.parquet") != sums {
			t.Error(text)
		}
	}
	check(false)
	ran(t, command.OK, "export", "-q", "-o", db, lab[0]) // it is there already
	check(true)
	sameAsSamples(t, db, "A", "B")
}

// TestSumsOfOthers: tables of an older version that belong to another user stay without sums, and
// reports are added beside them.
func TestSumsOfOthers(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	part := filepath.Join(dir, "part-test")
	for _, table := range []string{tableSums, tableDurations} {
		for _, suffix := range []string{tableSuffix, tableSuffix + sumSuffix} {
			if err := os.Remove(filepath.Join(part, table+suffix)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777), os.Chmod(part, 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(part, 0o755) }) // so that it can be removed
	var s *store
	var err error
	asOther(t, func() { s, err = openStore(dir) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if has, err := haveSums([]string{part}); err != nil || has || len(s.reports) != 5 {
		t.Errorf("%v, %v, %d reports", has, err, len(s.reports))
	}
	if left, err := filepath.Glob(filepath.Join(dir, newPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("%s, %v", left, err)
	}
}

// asOther calls do on a thread that has not the permissions of root, if it is root.
func asOther(t *testing.T, do func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with it
		var err error
		if os.Geteuid() == 0 {
			const nobody = 65534
			_, err = unix.SetfsuidRetUid(nobody)
		}
		do()
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestSumsTwice: a lock of which only some waits are those for a lock has two rows in a report, and
// its device counts once.
func TestSumsTwice(t *testing.T) {
	dir := t.TempDir()
	s, p := openPart(t, dir)
	defer s.Close()
	for i := range 3 {
		c := newCollector()
		for k := range 4 {
			ns := int64(k + 1)
			row := sampleRow{Event: futexWait, NS: &ns, Weight: 1}
			row.of(&lock{is: k != i, kind: "mutex", name: "pool"}, nil)
			c.samples = append(c.samples, row)
		}
		c.head["weight"] = "2.5"
		c.finish(uint64(i+1), "report", now())
		if err := s.add(p, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish("part-test"); err != nil {
		t.Fatal(err)
	}
	for _, row := range read[sumRow](t, dir, tableSums) {
		if row.More != *row.IsLock || row.Weight != 2.5 {
			t.Errorf("%+v", row)
		}
	}
	if rows, _ := answerOf(t, "top", dir); strings.Join(rows[1], ",") != "75,12,3,100,mutex,pool,,,," {
		t.Error(rows)
	}
	sameAsSamples(t, dir)
}

// TestDurations: what is written before the end, as memory is bounded, counts with the rest.
func TestDurations(t *testing.T) {
	var rows []durationRow
	d := newDurations(func(more []durationRow) error {
		rows = append(rows, more...)
		return nil
	})
	d.most = 3
	const waits, locks = 1000, 5
	var samples []sampleRow
	for i := range waits {
		key, ns := uint64(i%locks), int64(i)
		samples = append(samples, sampleRow{NS: &ns, LockKey: &key})
	}
	if err := d.add(append(samples, sampleRow{})); err != nil {
		t.Fatal(err)
	}
	if err := d.flush(); err != nil {
		t.Fatal(err)
	}
	n := make(map[uint64]int64)
	for _, row := range rows {
		n[row.LockKey] += row.Waits
		if atMost(row.AtMostNS) != row.AtMostNS {
			t.Errorf("%+v", row)
		}
	}
	for key := range uint64(locks) {
		if n[key] != waits/locks {
			t.Errorf("%d waits for %d", n[key], key)
		}
	}
}

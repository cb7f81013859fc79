package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/cmd/ustack/internal/tables"
	"ustack/filemap/resolve"
	"ustack/tracefs/capturetest"
)

// sharedReports writes reports that share events: each has the events of a part of a capture, in
// percent. Those with the same begun are of one recording.
func sharedReports(t *testing.T, dir, boot, begun, system string, parts ...[2]int) (files []string) {
	t.Helper()
	lines := bytes.SplitAfter(capturetest.Read(t, testdata+"/git-grep/trace.txt.zst"), []byte("\n"))
	for i, part := range parts {
		text := fmt.Appendf(nil, "# ustack: escaped=1\n# ustack: boot_id=%s\n# ustack: os=%s\n# ustack: begun=%s\n# ustack: trigger=%d\n# ustack: clock_offset_ns=1795700000000000000\n", boot, system, begun, i)
		from, to := len(lines)*part[0]/100, len(lines)*part[1]/100
		for from > 0 && !isHeader(lines[from]) {
			from++
		}
		for to < len(lines) && !isHeader(lines[to]) {
			to++
		}
		name := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.txt", boot, begun, i))
		writeFile(t, name, append(text, bytes.Join(lines[from:to], nil)...))
		files = append(files, name)
	}
	return files
}

// isHeader reports whether a line begins an event, and is not a part of its stack.
func isHeader(line []byte) bool {
	return bytes.Contains(line, []byte("[0")) && !bytes.Contains(line, []byte("stack trace>")) && !bytes.Contains(line, []byte("stack unwind>"))
}

// waitSet is a Sink that has each wait with a time, once.
type waitSet struct {
	columns []tables.Column
	waits   map[string]int64
	all     int
}

func (s *waitSet) Row(table string, values []any) error {
	if table != "waits" {
		return nil
	}
	row := make(map[string]any)
	for i, c := range s.columns {
		row[c.Name] = values[i]
	}
	if ns, ok := row["ns"].(int64); ok && row["slept"] == int64(1) && row["to_ns"] != nil && row["began_before"] == int64(0) {
		s.waits[fmt.Sprint(row["tid"], " ", row["from_ns"], " ", row["to_ns"])] = ns
		s.all++
	}
	return nil
}

// distinct returns how many different waits reports have, their time, and how many there are
// in all of them together.
func distinct(t *testing.T, files []string) (n int, ns int64, all int) {
	t.Helper()
	s := waitSet{columns: columnsOf("waits"), waits: make(map[string]int64)}
	for i := range files {
		source := tables.Source{From: &saved.Options{Files: files[i : i+1], Dialect: resolve.Auto, Quiet: true}, Symbols: &symbols.Options{}, Places: true}
		if _, err := source.Load(nil, nil, &s); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range s.waits {
		ns += one
	}
	return len(s.waits), ns, s.all
}

// sumOfColumns sums up two columns of an answer.
func sumOfColumns(t *testing.T, text string, a, b string) (x, y int64) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v: %s", err, text)
	}
	for i, name := range rows[0] {
		for _, row := range rows[1:] {
			n, _ := strconv.ParseInt(row[i], 10, 64)
			switch name {
			case a:
				x += n
			case b:
				y += n
			}
		}
	}
	return x, y
}

// TestAgain: a wait that several reports of one recording have counts once, in each order in
// which they are exported, and those of other recordings and devices count, too.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	shared := sharedReports(t, dir, "a", "one", "A", [2]int{0, 60}, [2]int{30, 90}, [2]int{50, 100}, [2]int{30, 90})
	n, ns, all := distinct(t, shared)
	if n < 20 || all < n+20 {
		t.Fatalf("%d waits, %d of them different: nothing is shown", all, n)
	}
	// One after the other, as those of a ring are.
	ring := sharedReports(t, dir, "r", "one", "A", [2]int{0, 40}, [2]int{40, 70}, [2]int{70, 100})
	ringN, ringNS, _ := distinct(t, ring)
	other := sharedReports(t, dir, "a", "two", "A", [2]int{30, 90})
	device := sharedReports(t, dir, "b", "one", "B", [2]int{30, 90})
	_, otherNS, otherN := distinct(t, other)
	for i, c := range []struct {
		exports [][]string
		n       int
		ns      int64
	}{
		{[][]string{shared}, n, ns},
		{[][]string{shared[2:], shared[:2]}, n, ns},
		{[][]string{{shared[3], shared[1]}, {shared[0]}, {shared[2]}, shared}, n, ns},
		{[][]string{shared, other, device}, n + 2*otherN, ns + 2*otherNS},
		{[][]string{shared, ring}, n + ringN, ns + ringNS},
	} {
		db := filepath.Join(dir, fmt.Sprint("db", i))
		for _, files := range c.exports {
			ran(t, command.OK, append([]string{"export", "-q", "-o", db}, files...)...)
		}
		top, _ := ran(t, command.OK, "fleet", "top", "--top=10000", "--format=csv", db)
		if waits, total := sumOfColumns(t, top, "waits", "total_ns"); waits != int64(c.n) || total != c.ns {
			t.Errorf("%d: %d waits of %d ns, want %d of %d", i, waits, total, c.n, c.ns)
		}
		devices, _ := ran(t, command.OK, "fleet", "devices", "--format=csv", db)
		if waits, total := sumOfColumns(t, devices, "waits", "total_ns"); waits != int64(c.n) || total != c.ns {
			t.Errorf("%d: devices have %d waits of %d ns, want %d of %d", i, waits, total, c.n, c.ns)
		}
	}
	diff, _ := ran(t, command.OK, "fleet", "diff", "--a=A", "--b=B", "--top=10000", "--format=csv", filepath.Join(dir, "db3"))
	if a, b := sumOfColumns(t, diff, "a_ns", "b_ns"); a != ns+otherNS || b != otherNS {
		t.Errorf("A has %d ns, want %d; B has %d, want %d", a, ns+otherNS, b, otherNS)
	}
}

// TestPushAgain: the same on a server, also if a push of one of the reports did not end.
func TestPushAgain(t *testing.T) {
	dir := t.TempDir()
	files := sharedReports(t, dir, "a", "one", "it's", [2]int{0, 60}, [2]int{30, 90}, [2]int{50, 100})
	files = append(files, sharedReports(t, dir, "a", "two", "two", [2]int{30, 90})...)
	files = append(files, sharedReports(t, dir, "b", "one", "two", [2]int{0, 100}, [2]int{20, 30}, [2]int{40, 95})...)
	files = append(files, sharedReports(t, dir, "c", "one", "two", [2]int{0, 50}, [2]int{50, 100})...)
	db := filepath.Join(dir, "db")
	ran(t, command.OK, append([]string{"export", "-q", "-o", db}, files...)...)
	s := servers(t, 2)
	for i, kind := range []string{"--ddl=clickhouse", "--ddl=clickhouse-distributed"} {
		for _, one := range s {
			one.create(kind)
		}
		for k := range files {
			if _, err := push(t, s[0], nil, files[k:k+1]...); err != nil {
				t.Fatal(err)
			}
		}
		// A push of the same reports of which no row of devices came.
		names := strings.Join(sampleNames(), ", ")
		lost := "INSERT INTO samples (batch, " + names + ") SELECT 1, " + names + " FROM samples"
		if i == 0 {
			if err := s[0].client().Exec(t.Context(), lost); err != nil {
				t.Fatal(err)
			}
		}
		sameAnswers(t, s[0], db)
		s[0].drop()
		s[1].drop()
	}
}

// sampleNames returns the names of the columns of samples.
func sampleNames() (names []string) {
	for _, c := range sampleColumns() {
		names = append(names, c.Name)
	}
	return names
}

package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"ustack/cmd/ustack/internal/command"
)

// weightedReport writes a report of one wait, which ends at a time in seconds, and stands for others.
func weightedReport(t *testing.T, dir, boot, weight, op, end string) string {
	t.Helper()
	name := filepath.Join(dir, boot+".txt")
	event := func(at, what string) string {
		return fmt.Sprintf("%16s-%-7d [000] ..... %s: sys_futex%s\n", "prog", 11, at, what)
	}
	writeFile(t, name, fmt.Appendf(nil, "# ustack: escaped=1\n# ustack: boot_id=%s\n# ustack: os=two\n# ustack: weight=%s\n%s%s", boot, weight,
		event("1.000000000", "(uaddr: 0x1000, op: "+op+", val: 2, utime: 0, uaddr2: 0, val3: 0)"), event(end, " -> 0x0")))
	return name
}

// TestPushWeights: a total that is half a nanosecond over, and one that 64 bits do not have, are on a
// server what they are in a directory.
func TestPushWeights(t *testing.T) {
	s := servers(t, 1)[0]
	db, files := fleetReports(t)
	dir := t.TempDir()
	more := []string{weightedReport(t, dir, "half", "2.5", "0x80", "1.000000001"), weightedReport(t, dir, "much", "1000000", "0x189", "9000000.0")}
	ran(t, command.OK, append([]string{"export", "-q", "-o", db}, more...)...)
	s.create("--ddl=clickhouse")
	if said, err := push(t, s, nil, append(files, more...)...); err != nil {
		t.Fatalf("%s: %v", said, err)
	}
	if rows, _ := answerOf(t, "top", db); rows[1][0] != "9223372036854774784" {
		t.Errorf("%s", rows)
	}
	sameAnswers(t, s, db)
}

// TestPushPaths: a report that gives a known build ID a path of its own does not rename the file for
// others, on a server as in a directory.
func TestPushPaths(t *testing.T) {
	s := servers(t, 1)[0]
	dir := t.TempDir()
	db, files := filepath.Join(dir, "db"), lyingReports(t, dir)
	ran(t, command.OK, append([]string{"export", "-q", "-o", db}, files...)...)
	s.create("--ddl=clickhouse")
	if said, err := push(t, s, nil, files...); err != nil {
		t.Fatalf("%s: %v", said, err)
	}
	sameAnswers(t, s, db)
}

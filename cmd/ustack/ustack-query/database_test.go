package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/query"
)

const gitGrep = "../../../testdata/git-grep/trace.txt.zst"

// loaded returns the database of a trace.
func loaded(t testing.TB, args ...string) *database {
	t.Helper()
	f, err := query.Parse(append([]string{"-q"}, args...), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := load(t.Context(), f, command.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// ask returns an answer as CSV, without the names of the columns.
func ask(t testing.TB, d *database, sql string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	f := query.Flags{SQL: sql, Timeout: time.Minute, Format: query.FormatCSV}
	err := answer(context.Background(), d, &f, &out)
	_, rows, _ := strings.Cut(out.String(), "\n")
	return strings.TrimSuffix(rows, "\n"), err
}

// TestReadsOnly: no statement does anything but read the tables, whatever it is called, and
// the tables are whole after all of them.
func TestReadsOnly(t *testing.T) {
	trace, err := filepath.Abs(gitGrep)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	t.Chdir(dir)
	d := loaded(t, "--no-symbols", "SELECT 1", trace)
	const count = "SELECT (SELECT count(*) FROM waits), (SELECT count(*) FROM events), (SELECT count(*) FROM sqlite_master)"
	before, err := ask(t, d, count)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"DELETE FROM waits", "UPDATE waits SET ns = 0", "INSERT INTO loss VALUES (1, 1, 1, 1, 1)", "REPLACE INTO loss VALUES (1, 1, 1, 1, 1)",
		"DROP TABLE waits", "CREATE TABLE x (y)", "CREATE TEMP TABLE x (y)", "CREATE TABLE x AS SELECT * FROM waits", "ALTER TABLE waits RENAME TO x",
		"CREATE VIEW x AS SELECT 1", "CREATE TEMP VIEW x AS SELECT 1", "CREATE TRIGGER x AFTER INSERT ON waits BEGIN SELECT 1; END", "CREATE INDEX x ON waits (ns)",
		"CREATE VIRTUAL TABLE x USING fts5(y)", "CREATE VIRTUAL TABLE temp.x USING dbstat", "ATTACH 'x.db' AS x", "ATTACH ':memory:' AS x", "DETACH main",
		"VACUUM", "VACUUM INTO 'x.db'", "REINDEX", "ANALYZE", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT x", "RELEASE x", "END",
		"PRAGMA query_only = 0", "PRAGMA journal_mode = WAL", "PRAGMA temp_store_directory = '.'", "PRAGMA writable_schema = 1", "PRAGMA hard_heap_limit = 0",
		"SELECT * FROM pragma_database_list", "SELECT load_extension('x.so')", "SELECT LOAD_EXTENSION('x.so', 'y')", "SELECT writefile('x', 'y')", "SELECT readfile('/etc/passwd')",
		"SELECT edit('x')", "SELECT fts3_tokenizer('x')", "WITH x AS (SELECT 1) DELETE FROM waits", "EXPLAIN DELETE FROM waits", "SELECT 1; DELETE FROM waits",
	} {
		if got, err := ask(t, d, sql); err == nil {
			t.Errorf("%s: %q", sql, got)
		}
	}
	if after, err := ask(t, d, count); err != nil || after != before {
		t.Errorf("%s, %v, was %s", after, err, before)
	}
	for _, dir := range []string{dir, os.Getenv("TMPDIR")} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
	}
}

// TestReads: what SQL has for reading works.
func TestReads(t *testing.T) {
	d := loaded(t, "--no-symbols", "SELECT 1", gitGrep)
	for sql, want := range map[string]string{
		"SELECT count(*) FROM events WHERE name LIKE 'sys_%'":                                                "1004",
		"WITH RECURSIVE a(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM a WHERE x < 5) SELECT sum(x) FROM a": "15",
		"SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1 LIMIT 2":                             "events\nframes",
		"SELECT tid, sum(ns) OVER (ORDER BY ns DESC) FROM waits WHERE slept ORDER BY ns DESC LIMIT 1":        "25551,16398000",
		"VALUES ('a' || char(27), NULL, 1.5)":                                                                `a\033,,1.5`,
	} {
		if got, err := ask(t, d, sql); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", sql, got, err, want)
		}
	}
}

// TestBounds: no query takes the machine's time or memory.
func TestBounds(t *testing.T) {
	d := loaded(t, "--no-symbols", "SELECT 1", gitGrep)
	endless := "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) "
	f := query.Flags{SQL: endless + "SELECT max(x) FROM a", Timeout: 100 * time.Millisecond, Format: query.FormatCSV}
	if err := answer(t.Context(), d, &f, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "longer than 100ms") {
		t.Errorf("endless: %v", err)
	}
	for _, sql := range []string{
		"SELECT length(zeroblob(100000000))", "SELECT length(printf('%.*c', 100000000, 'x'))",
		"SELECT length(group_concat(hex(zeroblob(1000)))) FROM events a, events b",
		"SELECT 1" + strings.Repeat(" + (1", 5000) + strings.Repeat(")", 5000),
		"SELECT 'x' LIKE '" + strings.Repeat("%x", 5000) + "'",
	} {
		if got, err := ask(t, d, sql); err == nil {
			t.Errorf("%.60s: %q", sql, got)
		}
	}
	if got, err := ask(t, d, "SELECT count(*) FROM waits"); err != nil || got != fmt.Sprint(len(witnessOf(t, gitGrep, "").waits(""))) {
		t.Errorf("after that: %q, %v", got, err)
	}
}

// TestCommand: a whole run, and those that fail.
func TestCommand(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		out  string
		errs string
	}{
		{"query|-q|--format=json|SELECT count(*) AS n FROM locks|" + gitGrep, command.OK, `{"n":9}` + "\n", ""},
		{"query|--schema", command.OK, "-- The trace as a whole: one row.\nCREATE TABLE trace (", ""},
		{"query|-q|SELECT color FROM locks|" + gitGrep, command.Failure, "", "no such column: color"},
		{"query|-q|SELECT 1|/nonexistent", command.Failure, "", "/nonexistent"},
		{"query|-q|SELECT 1|../../../go.mod", command.Failure, "", "no trace"},
		{"query|SELECT 1", command.Usage, "", "a query and a FILE are needed"},
		{"mcp", command.Usage, "", "one FILE is needed"},
		{"other", command.Usage, "", "is run by ustack"},
		{"--version", command.OK, "ustack ", ""},
	} {
		var out, errs bytes.Buffer
		code := run(strings.Split(test.args, "|"), command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if code != test.code || !strings.HasPrefix(out.String(), test.out) || !strings.Contains(errs.String(), test.errs) || test.errs == "" && errs.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q", test.args, code, &out, &errs)
		}
	}
}

// TestManual: what the manual shows is what comes out.
func TestManual(t *testing.T) {
	page, err := os.ReadFile("../help/query.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../../..")
	const indent, prompt = "    ", "    % ustack "
	shown := 0
	for _, block := range strings.Split(string(page), "\n\n") {
		first, want, _ := strings.Cut(strings.ReplaceAll(block, "\\\n    ", ""), "\n")
		command, ok := strings.CutPrefix(first, prompt)
		if !ok {
			continue
		}
		shown++
		want = strings.TrimSuffix(strings.ReplaceAll("\n"+want, "\n"+indent, "\n"), "\n")[1:] + "\n"
		var args []string // quoted by '
		for i, part := range strings.Split(command, "'") {
			if i%2 == 1 {
				args = append(args, part)
			} else {
				args = append(args, strings.Fields(part)...)
			}
		}
		var out bytes.Buffer
		if code := run(args, streams(&out)); code != 0 || out.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", command, &out, want)
		}
	}
	if shown != 2 {
		t.Errorf("%d examples", shown)
	}
}

func streams(out *bytes.Buffer) command.Streams {
	return command.Streams{In: strings.NewReader(""), Out: out, Err: out}
}

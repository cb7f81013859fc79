package tables_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/cmd/ustack/internal/tables"
	"ustack/filemap"
	"ustack/tracefs/capturetest"
)

const testdata = "../../../../testdata"

// TestSchemaTrust: the schema says the words that frames have.
func TestSchemaTrust(t *testing.T) {
	var schema strings.Builder
	if err := tables.WriteSchema(&schema); err != nil {
		t.Fatal(err)
	}
	about := schema.String()[strings.Index(schema.String(), "how the file is known"):]
	about, _, _ = strings.Cut(about, "\n")
	for _, trust := range []filemap.Trust{filemap.Verified, filemap.Announced, filemap.Inferred, filemap.Late, filemap.Claimed} {
		if !strings.Contains(about, trust.String()) {
			t.Errorf("%q is not in: %s", trust, about)
		}
	}
}

// memory is a Sink that keeps all rows, and checks their form.
type memory struct {
	t      testing.TB
	tables map[string]tables.Table
	rows   map[string][]row
}

// row has the values of a row by column. Those that are NULL are not there.
type row map[string]any

func (r row) int(name string) int64   { n, _ := r[name].(int64); return n }
func (r row) text(name string) string { s, _ := r[name].(string); return s }

func newMemory(t testing.TB) *memory {
	m := &memory{t: t, tables: map[string]tables.Table{}, rows: map[string][]row{}}
	for _, table := range tables.All() {
		m.tables[table.Name] = table
	}
	return m
}

// Row implements tables.Sink.
func (m *memory) Row(table string, values []any) error {
	columns := m.tables[table].Columns
	if len(columns) == 0 || len(values) != len(columns) {
		m.t.Fatalf("%s: %d values for %d columns", table, len(values), len(columns))
	}
	r := row{}
	for i, v := range values {
		ok := v == nil
		switch v := v.(type) {
		case int64:
			ok = columns[i].Type == tables.Integer
		case string:
			ok = columns[i].Type == tables.Text && v != "" && strings.ToValidUTF8(v, "") == v
		}
		if !ok {
			m.t.Errorf("%s.%s: %T %v", table, columns[i].Name, v, v)
		}
		if v != nil {
			r[columns[i].Name] = v
		}
	}
	m.rows[table] = append(m.rows[table], r)
	return nil
}

// load loads a trace without symbols.
func load(t testing.TB, from saved.Options, text string) *memory {
	t.Helper()
	m := newMemory(t)
	from.Quiet = true
	s := tables.Source{From: &from, Symbols: &symbols.Options{}}
	if _, err := s.Load(strings.NewReader(text), io.Discard, m); err != nil {
		t.Fatalf("%q: %v", from.Files, err)
	}
	return m
}

// TestLoadCloses: nothing stays open of a trace that was loaded.
func TestLoadCloses(t *testing.T) {
	const dir = "/proc/self/fd"
	open := func() int {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Skipf("no %s: %v", dir, err)
		}
		return len(list)
	}
	root, text := t.TempDir(), "               a-1       [000] .....     1.000000: sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)\n"
	load(t, saved.Options{Files: []string{"-"}, Sysroot: root}, text)
	before := open()
	for range 8 {
		load(t, saved.Options{Files: []string{"-"}, Sysroot: root}, text)
	}
	if n := open() - before; n >= 8 {
		t.Errorf("%d more files are open", n)
	}
}

// capture is a trace with its text.
type capture struct {
	*memory
	lines []string
}

// line returns a line, counted from 1, with the next one: names of threads can have line
// feeds.
func (c *capture) line(n int64) string {
	if n < 1 || n > int64(len(c.lines)) {
		c.t.Fatalf("line %d of %d", n, len(c.lines))
	}
	line := c.lines[n-1]
	if !strings.Contains(line, ": ") {
		line += c.lines[n]
	}
	return line
}

func captures(t *testing.T) map[string]*capture {
	out := map[string]*capture{}
	names := []string{"captures/hash/pipe_default", "captures/hash/lost", "captures/stock/tgid", "captures/inode/edge2", "git-grep"}
	if !capturetest.Brief() {
		names = append(names, "captures/hash/churn", "captures/stock/lost", "captures/hash/counter", "captures/inode/pipe_odd", "captures/hash/kstack", "captures/hash/mono")
	}
	for _, name := range names {
		file := filepath.Join(testdata, name, "trace.txt.zst")
		from := saved.Options{Files: []string{file}}
		out[name] = &capture{load(t, from, ""), strings.Split(string(capturetest.Read(t, file)), "\n")}
	}
	return out
}

// TestLines: the lines that rows cite are of their thread, and are what the rows say.
func TestLines(t *testing.T) {
	for name, c := range captures(t) {
		cited := 0
		cites := func(r row, column, tid string, form ...string) {
			t.Helper()
			n, ok := r[column].(int64)
			if !ok {
				return
			}
			cited++
			line := c.line(n)
			found := strings.Contains(line, "-"+strconv.FormatInt(r.int(tid), 10)+" ")
			for _, f := range form {
				found = found && strings.Contains(line, f)
			}
			if !found {
				t.Errorf("%s: %s is line %d, %q, which is not of %v", name, column, n, line, r)
			}
		}
		for _, w := range c.rows["waits"] {
			cites(w, "line", "tid", "sys_", "(")
			cites(w, "end_line", "tid", "sys_", " -> ")
			cites(w, "waker_line", "waker_tid", "sys_futex", "(")
		}
		for _, h := range c.rows["holds"] {
			cites(h, "line", "tid", "sys_futex", "(")
			cites(h, "from_line", "tid", "sys_futex", " -> ")
		}
		for _, e := range c.rows["events"] {
			what := e.text("name")
			for _, prefix := range []string{"sys_enter_", "sys_exit_"} {
				what = strings.Replace(what, prefix, "sys_", 1)
			}
			cites(e, "line", "tid", what)
		}
		if cited < 100 {
			t.Errorf("%s: %d lines are cited", name, cited)
		}
	}
}

// TestSums: what the rows of waits, holds and losses add up to is what locks and trace
// have.
func TestSums(t *testing.T) {
	words := map[string]string{"woken": "woken", "changed": "changed", "timed out": "timed_out", "interrupted": "interrupted",
		"requeued": "requeued", "failed": "failed", "no return": "no_return", "open": "open"}
	holds, losses := 0, int64(0)
	for name, c := range captures(t) {
		type sums struct{ ns, open, holds int64 }
		byLock := map[int64]*sums{}
		results := map[string]int64{}
		for _, l := range c.rows["locks"] {
			byLock[l.int("id")] = &sums{}
		}
		for _, w := range c.rows["waits"] {
			s := byLock[w.int("lock")]
			if s == nil {
				continue
			}
			results[fmt.Sprint(w.int("lock"), words[w.text("result")])]++
			switch {
			case w.text("result") == "open":
				s.open += w.int("ns")
			case w.int("slept") == 1 && w.int("began_before") == 0:
				s.ns += w.int("ns")
			}
		}
		for _, h := range c.rows["holds"] {
			byLock[h.int("lock")].holds++
			holds++
		}
		for _, l := range c.rows["locks"] {
			s := byLock[l.int("id")]
			if s.ns != l.int("ns") || s.open != l.int("open_ns") || s.holds != l.int("holds") {
				t.Errorf("%s: waits and holds add up to %+v, the lock is %v", name, *s, l)
			}
			for _, column := range words {
				if got := results[fmt.Sprint(l.int("id"), column)]; got != l.int(column) {
					t.Errorf("%s: %d waits are %s, the lock is %v", name, got, column, l)
				}
			}
		}
		trace, lost := c.rows["trace"][0], int64(0)
		for _, l := range c.rows["loss"] {
			lost += l.int("records")
		}
		if lost != trace.int("lost_records") || int64(len(c.rows["events"])) != trace.int("events") {
			t.Errorf("%s: %d records are lost, of %d events: %v", name, lost, len(c.rows["events"]), trace)
		}
		losses += lost
	}
	if holds == 0 || losses == 0 {
		t.Errorf("%d holds, %d lost records: nothing was compared", holds, losses)
	}
}

// TestReferences: numbers of locks and stacks are of rows that exist, and stacks have their
// frames.
func TestReferences(t *testing.T) {
	for name, c := range captures(t) {
		locks, stacks, depth := map[int64]bool{}, map[int64]int64{}, map[int64]int64{}
		for _, l := range c.rows["locks"] {
			locks[l.int("id")] = true
		}
		for i, s := range c.rows["stacks"] {
			if stacks[s.int("id")] = s.int("depth"); s.int("id") != int64(i)+1 {
				t.Errorf("%s: stack %d is row %d", name, s.int("id"), i)
			}
		}
		for _, f := range c.rows["frames"] {
			if depth[f.int("stack")] != f.int("depth") || f["file"] == nil == (f["reason"] == nil) {
				t.Errorf("%s: frame %v", name, f)
			}
			depth[f.int("stack")]++
		}
		for n, d := range stacks {
			if depth[n] != d {
				t.Errorf("%s: stack %d of depth %d has %d frames", name, n, d, depth[n])
			}
		}
		for table, columns := range map[string][]string{"waits": {"stack", "waker_stack", "lock"}, "holds": {"stack", "lock"}, "events": {"stack"}} {
			for _, r := range c.rows[table] {
				for _, column := range columns {
					n, ok := r[column].(int64)
					if known := stacks[n] > 0; ok && (column == "lock" && !locks[n] || column != "lock" && !known) {
						t.Errorf("%s: %s.%s is %d", name, table, column, n)
					}
				}
			}
		}
	}
}

// TestSchema: each column has its type and what it means, once.
func TestSchema(t *testing.T) {
	var b bytes.Buffer
	if err := tables.WriteSchema(&b); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables.All() {
		seen := map[string]bool{}
		if !strings.Contains(b.String(), "CREATE TABLE "+table.Name+" (\n") || table.About == "" {
			t.Errorf("the schema has no %s", table.Name)
		}
		for _, c := range table.Columns {
			if seen[c.Name] || c.About == "" || c.Type != tables.Integer && c.Type != tables.Text {
				t.Errorf("%s: column %+v", table.Name, c)
			}
			seen[c.Name] = true
		}
		for _, name := range table.Indexes {
			if !seen[name] {
				t.Errorf("%s: an index by %s", table.Name, name)
			}
		}
	}
}

// TestHostile: names in a trace can be anything.
func TestHostile(t *testing.T) {
	var text strings.Builder
	for _, x := range []struct{ comm, tid, time, body string }{
		{"a\x1b[2J\xff", "10", "1.000100", "sys_futex(uaddr: 0x1000, op: 0x80, val: 2)"},
		{"b;'\"", "11", "1.000300", "sys_futex(uaddr: 0x1000, op: 0x81, val: 1)"},
		{"b;'\"", "11", "1.000310", "sys_futex -> 0x1"},
		{"a\x1b[2J\xff", "10", "1.000350", "sys_futex -> 0x0"},
		{"x", "12", "1.000360", "\xff\xfe: \x00"},
	} {
		fmt.Fprintf(&text, "%16s-%-7s [000] ..... %12s: %s\n", x.comm, x.tid, x.time, x.body)
	}
	m := load(t, saved.Options{Files: []string{"-"}}, text.String())
	if w := m.rows["waits"]; len(w) != 1 || w[0].int("line") != 1 || w[0].int("end_line") != 4 || w[0].int("waker_line") != 2 ||
		w[0].int("ns") != 250_000 || w[0].text("comm") != "a\x1b[2J\ufffd" || w[0].text("waker_comm") != `b;'"` {
		t.Errorf("%v", w)
	}
	if e := m.rows["events"]; len(e) != 5 || e[4]["name"] != nil {
		t.Errorf("%v", e)
	}
}

// failing is a Sink without room.
type failing struct{ left int }

// Row implements tables.Sink.
func (f *failing) Row(string, []any) error {
	if f.left--; f.left < 0 {
		return io.ErrShortWrite
	}
	return nil
}

// TestNoRoom: a table that cannot be filled is an error, wherever it happens.
func TestNoRoom(t *testing.T) {
	for _, rows := range []int{0, 1, 500, 1008, 1012, 1020, 1300, 1400, 1500} {
		s := tables.Source{From: &saved.Options{Files: []string{testdata + "/git-grep/trace.txt.zst"}, Quiet: true}, Symbols: &symbols.Options{}}
		if _, err := s.Load(nil, io.Discard, &failing{rows}); err == nil {
			t.Errorf("%d rows are enough", rows)
		}
	}
}

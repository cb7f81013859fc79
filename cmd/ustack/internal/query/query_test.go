package query

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"ustack/cmd/ustack/internal/command"
)

// write writes an answer.
func write(t testing.TB, f Format, columns []string, rows ...[]any) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, f, columns)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Row(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestWriter writes each kind of value in each format.
func TestWriter(t *testing.T) {
	columns := []string{"n", "text", "n"}
	rows := [][]any{{int64(-7), "a\x1b[2J\n\u202eb\xff,\"", nil}, {int64(12345), []byte("é"), 0.5}, {nil, "", math.Inf(1)}}
	for f, want := range map[Format]string{
		FormatTable: "    n  text                                            n\n" +
			"   -7  a\\033[2J\\012\\342\\200\\256b\\377,\"             NULL\n" +
			"12345  é                                             0.5\n" +
			" NULL                                               +Inf\n",
		FormatCSV: "n,text,n\n" +
			"-7,\"a\\033[2J\\012\\342\\200\\256b\\377,\"\"\",\n" +
			"12345,é,0.5\n" +
			",,+Inf\n",
		FormatJSON: `{"n":-7,"text":"a\u001b[2J\n\u202eb\ufffd,\"","n_2":null}` + "\n" +
			`{"n":12345,"text":"é","n_2":0.5}` + "\n" +
			`{"n":null,"text":"","n_2":"+Inf"}` + "\n",
	} {
		if got := write(t, f, columns, rows...); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%s:\n%s\nwant\n%s", f, got, want)
		}
	}
}

// TestTableWide: rows after those that decide the widths are whole.
func TestTableWide(t *testing.T) {
	rows := make([][]any, keptRows+10)
	for i := range rows {
		rows[i] = []any{int64(i), strings.Repeat("x", i%(2*maxWidth))}
	}
	lines := strings.Split(strings.TrimSuffix(write(t, FormatTable, []string{"n", "x"}, rows...), "\n"), "\n")
	if len(lines) != len(rows)+1 {
		t.Fatalf("%d lines for %d rows", len(lines), len(rows))
	}
	for i, line := range lines[1:] {
		if strings.Count(line, "x") != i%(2*maxWidth) {
			t.Errorf("row %d is %q", i, line)
		}
	}
}

// TestCheckSQL: one statement, with whatever in its texts and comments.
func TestCheckSQL(t *testing.T) {
	for sql, want := range map[string]bool{
		"SELECT 1":                               true,
		"SELECT ';' ; ":                          true,
		"SELECT \";;\", 'it''s;', [;], `;`;":     true,
		"SELECT 1 -- ;\n":                        true,
		"/* ; */ SELECT 1 ; -- end":              true,
		"SELECT '":                               true, // the database says what is wrong
		"":                                       false,
		" \n-- nothing":                          false,
		"SELECT 1; SELECT 2":                     false,
		"SELECT 1;;":                             false,
		"SELECT 1;/**/DROP TABLE x":              false,
		"SELECT '" + strings.Repeat("x", MaxSQL): false,
	} {
		if err := CheckSQL(sql); (err == nil) != want {
			t.Errorf("%.60q: %v", sql, err)
		}
	}
}

// TestParse: arguments that do not fit are refused.
func TestParse(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"SELECT|t.txt", ""},
		{"--format=csv|--timeout|5s|SELECT|-", ""},
		{"--schema", ""},
		{"--schema|x", `--schema is the same for all traces: unexpected argument "x"`},
		{"SELECT", "a query and a FILE are needed: ustack query 'SELECT * FROM trace' FILE; --schema has the tables"},
		{"--format=xml|SELECT|f", "--format: it is table, csv or json"},
		{"SELECT|--format=csv", "a query and a FILE are needed"},
		{"SELECT|f|--format=csv|--nosuch", "unknown flag --nosuch"},
		{"SELECT|t.txt|--format=csv", ""},
		{"--timeout=-1s|SELECT|f", "--timeout takes a time above 0"},
		{"a;b|f", "the query has more than one statement"},
	} {
		f, err := Parse(strings.Split(test.args, "|"), io.Discard)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(test.want, "--format: "))) {
			t.Errorf("%s: %v", test.args, err)
		}
		if test.args == "--format=csv|--timeout|5s|SELECT|-" && (f.Format != FormatCSV || f.Timeout != 5*time.Second || f.SQL != "SELECT" || f.From.Files[0] != "-" || !f.Symbols.On) {
			t.Errorf("%+v", f)
		}
	}
	if f, err := ParseServer([]string{"--no-symbols", "--debug-dir", "x", "f"}, io.Discard); err != nil || f.Symbols.On || f.From.Symbols || len(f.Symbols.DebugDirs) > 0 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, args := range [][]string{{}, {"-"}, {"a", "b"}} {
		if _, err := ParseServer(args, io.Discard); err == nil {
			t.Errorf("mcp %q", args)
		}
	}
}

// TestSchemaWithoutDatabase: the schema is printed without the other program.
func TestSchemaWithoutDatabase(t *testing.T) {
	var out bytes.Buffer
	if err := Main([]string{"--schema"}, command.Streams{Out: &out, Err: io.Discard}); err != nil || !strings.Contains(out.String(), "CREATE TABLE waits (") {
		t.Errorf("%v: %s", err, &out)
	}
}

// FuzzCheckSQL: no text stops the check, and texts in quotes never end a statement.
func FuzzCheckSQL(f *testing.F) {
	f.Add("SELECT ';' -- x\n;")
	f.Add("/* [ */ ` ;")
	f.Fuzz(func(t *testing.T, sql string) {
		if CheckSQL(sql) == nil && len(sql) < MaxSQL-20 {
			quoted := "SELECT '" + strings.ReplaceAll(sql, "'", "''") + "'"
			if err := CheckSQL(quoted); err != nil && len(quoted) <= MaxSQL {
				t.Errorf("%q: %v", quoted, err)
			}
		}
	})
}

// FuzzWriter: whatever a value is, a row of a table and of CSV is a line without control
// characters, and a row of JSON is an object.
func FuzzWriter(f *testing.F) {
	f.Add("a\x1b[2J", "\xff\n")
	f.Add("\u2028", ",\"")
	f.Add("", "\n\xfe")
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, format := range []Format{FormatTable, FormatCSV} {
			text := write(t, format, []string{name}, []any{value})
			if strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unicode.IsControl) || !utf8.ValidString(text) || strings.Count(text, "\n") != 2 {
				t.Errorf("%s: %q", format, text)
			}
			if cells, err := csv.NewReader(strings.NewReader(text)).ReadAll(); format == FormatCSV && (err != nil || len(cells) != 2 || cells[0][0] != printable(name) || cells[1][0] != printable(value)) {
				t.Errorf("%q is read as %q", text, cells)
			}
		}
		text := write(t, FormatJSON, []string{name, name}, []any{value, int64(1)})
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil || len(object) != 2 || strings.Count(text, "\n") != 1 {
			t.Errorf("%q: %v, %v", text, object, err)
		}
	})
}

package clickhouse

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/fleet"
)

const password = "s3cret"

// fake returns a client of a server that answers by a function.
func fake(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	to, err := fleet.ParseAddress(strings.Replace(s.URL, "http", "clickhouse", 1))
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := fleet.LoadCredentials("", func(name string) string {
		return map[string]string{"USTACK_CLICKHOUSE_USER": "u", "USTACK_CLICKHOUSE_PASSWORD": password}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	return New(to, credentials, nil)
}

// TestHostileServer: no error has the password, a statement or a control character, no
// answer is too large, and no other server gets the password.
func TestHostileServer(t *testing.T) {
	another := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirection was followed") }))
	defer another.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"echo": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, "\x1b[2J %s %s", r.Header.Get("X-ClickHouse-Key"), strings.Repeat("x", 1<<20))
		},
		"echo that is cut": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, "%s%s", strings.Repeat("x", MaxError-len(password)+1), r.Header.Get("X-ClickHouse-Key"))
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, another.URL, http.StatusTemporaryRedirect)
		},
		"hang up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "1\t2")
		},
		"large": func(w http.ResponseWriter, _ *http.Request) {
			for range maxAnswer>>20 + 2 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
		"late error": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Code: 1\\x") },
	} {
		c := fake(t, answer)
		for kind, ask := range map[string]func() error{
			"query":  func() error { _, err := c.Query(context.Background(), "SELECT private"); return err },
			"insert": func() error { return c.Insert(context.Background(), "INSERT INTO private", []byte("row")) },
		} {
			err := ask()
			if err == nil {
				t.Errorf("%s, %s: no error", name, kind)
				continue
			}
			if text := err.Error(); strings.Contains(text, password[:len(password)-1]) || strings.Contains(text, "private") || strings.ContainsRune(text, '\x1b') || len(text) > 2*MaxError {
				t.Errorf("%s, %s: %.200s", name, kind, text)
			}
		}
	}
}

// TestRetry: what passes is repeated, what does not is not, and the time is bounded.
func TestRetry(t *testing.T) {
	for _, one := range []struct {
		status int
		text   string
		again  bool
	}{
		{500, "Code: 252, e.displayText() = DB::Exception: Too many parts", true},
		{500, "Code: 279. DB::Exception: All connection tries failed", true},
		{500, "Code: 62, e.displayText() = DB::Exception: Syntax error", false},
		{401, "Code: 193, e.displayText() = DB::Exception: Wrong password", false},
		{404, "Code: 60, e.displayText() = DB::Exception: Table default.x doesn't exist.", false},
		{503, "a proxy", true},
		{429, "a proxy", true},
		{404, "a proxy", false},
		{301, "", false},
	} {
		asked := 0
		c := fake(t, func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked == 1 {
				w.WriteHeader(one.status)
				_, _ = io.WriteString(w, one.text)
			}
		})
		c.Wait = Backoff{First: time.Millisecond, Most: time.Millisecond, Total: time.Minute}
		err := c.Wait.Retry(context.Background(), nil, func() error { return c.Exec(context.Background(), "x") })
		if one.again != (err == nil) || one.again != (asked == 2) {
			t.Errorf("%d %s: asked %d times, %v", one.status, one.text, asked, err)
		}
		if NoTables(err) != strings.Contains(one.text, "Code: 60,") {
			t.Errorf("%s: no tables: %t", one.text, NoTables(err))
		}
	}
	c := fake(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	tries := 0
	never := func() error { tries++; return c.Exec(context.Background(), "x") }
	if err := (Backoff{First: time.Hour, Most: time.Hour, Total: time.Minute}).Retry(context.Background(), nil, never); err == nil || !strings.Contains(err.Error(), "giving up") || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := (Backoff{First: time.Hour, Most: time.Hour, Total: 3 * time.Hour}).Retry(ctx, func(error, time.Duration) { cancel() }, never); err == nil || ctx.Err() == nil {
		t.Errorf("after an interrupt: %v", err)
	}
}

// TestRows: rows as ClickHouse documents RowBinary, with the first column set when they are
// sent.
func TestRows(t *testing.T) {
	type row struct {
		text string
		n    *int64
	}
	rows := NewRows([]Column[row]{
		{"text", "String", func(b []byte, r *row) []byte { return AppendString(b, r.text) }},
		{"n", "Nullable(Int64)", func(b []byte, r *row) []byte { return Optional(b, r.n, AppendInt64) }},
	})
	n := int64(-2)
	for _, r := range []row{{"ab", nil}, {strings.Repeat("x", 200), &n}} {
		rows.Add(&r)
	}
	want := "\x07\x00\x00\x00\x00\x00\x00\x01\x02ab\x01" + "\x07\x00\x00\x00\x00\x00\x00\x01\xc8\x01" + strings.Repeat("x", 200) + "\x00\xfe\xff\xff\xff\xff\xff\xff\xff"
	for range 2 {
		if got := string(rows.Stamped(1<<56 + 7)); got != want || rows.Len() != 2 || rows.Size() != len(want) {
			t.Errorf("%d rows: %q", rows.Len(), got)
		}
	}
	for n, lengths := range [][]int{{len(want)}, {len(want)}, {12, len(want) - 12}, {12, len(want) - 12}} {
		var got []int
		var all string
		for _, part := range rows.Parts(1<<56+7, n) {
			got, all = append(got, len(part)), all+string(part)
		}
		if !slices.Equal(got, lengths) || all != want {
			t.Errorf("%d parts: %v, want %v", n, got, lengths)
		}
	}
	rows.Clear()
	if rows.Len() != 0 || len(rows.Stamped(1)) != 0 || len(rows.Parts(1, 3)) != 0 {
		t.Error("rows stay")
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/query"
)

// client returns a client of a server for a trace.
func client(t *testing.T, file string) *mcp.ClientSession {
	t.Helper()
	f, err := query.ParseServer([]string{"-q", "--no-symbols", file}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d, l, err := load(t.Context(), f, command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &bytes.Buffer{}})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := &server{f: f, loaded: l, d: d}
	go func() { ended <- s.protocol().Run(ctx, ours) }()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(ctx, theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		cancel()
		<-ended
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// tool asks a question.
func tool(t *testing.T, c *mcp.ClientSession, q question) (r reply, failed string) {
	t.Helper()
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "query", Arguments: q})
	if err != nil {
		t.Fatal(err)
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		return r, text
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return r, ""
}

// TestServer: an agent finds the tool and the resources, and answers have their bounds.
func TestServer(t *testing.T) {
	c := client(t, gitGrep)
	tools, err := c.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "query" {
		t.Fatalf("%+v, %v", tools, err)
	}
	for uri, want := range map[string]string{
		"ustack://report": "waited for 2 locks, by 5 threads", "ustack://stacks": "mutex 0x55aba4bd61c0", "ustack://schema": "CREATE TABLE waits (",
	} {
		r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(r.Contents) != 1 || !strings.Contains(r.Contents[0].Text, want) {
			t.Errorf("%s: %+v, %v", uri, r, err)
		}
	}
	if r, failed := tool(t, c, question{SQL: "SELECT line, ns, no_stack FROM waits ORDER BY ns DESC LIMIT 1"}); failed != "" || len(r.Rows) != 1 ||
		r.Rows[0][0] != 2894.0 || r.Rows[0][1] != 16398000.0 || r.Rows[0][2] != nil || r.More || strings.Join(r.Columns, " ") != "line ns no_stack" {
		t.Errorf("%+v, %s", r, failed)
	}
	for _, test := range []struct {
		q    question
		rows int
		more bool
	}{
		{question{SQL: "SELECT * FROM events"}, usualRows, true},
		{question{SQL: "SELECT * FROM events", Rows: 5}, 5, true},
		{question{SQL: "SELECT line FROM events", Rows: 1 << 30}, mostRows, true},
		{question{SQL: "SELECT * FROM locks", Rows: -1}, 9, false},
		{question{SQL: "SELECT hex(zeroblob(50000)) FROM locks"}, 2, true},
		{question{SQL: "SELECT * FROM loss"}, 0, false},
	} {
		if r, failed := tool(t, c, test.q); failed != "" || len(r.Rows) != test.rows || r.More != test.more {
			t.Errorf("%+v: %d rows, %v, %s", test.q, len(r.Rows), r.More, failed)
		}
	}
	for _, sql := range []string{"DROP TABLE waits", "SELECT 1; SELECT 2", "", "SELECT x"} {
		if r, failed := tool(t, c, question{SQL: sql}); failed == "" {
			t.Errorf("%q: %+v", sql, r)
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/query"
	"ustack/cmd/ustack/internal/tables"
)

// server serves a trace to an agent.
type server struct {
	f      *query.Flags
	loaded *tables.Loaded

	mu sync.Mutex // of d, which has one connection
	d  *database
}

// Bounds of one answer: agents read all of it.
const (
	usualRows = 100
	mostRows  = 1000
	mostBytes = 256 << 10
)

// mcpCommand is "ustack mcp".
func mcpCommand(args []string, std command.Streams) error {
	f, err := query.ParseServer(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	ctx := context.Background()
	d, loaded, err := load(ctx, f, std)
	if err != nil {
		return err
	}
	defer d.Close()
	s := &server{f: f, loaded: loaded, d: d}
	if err := s.protocol().Run(ctx, &mcp.StdioTransport{}); err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// question is what the tool takes.
type question struct {
	SQL  string `json:"sql" jsonschema:"one SELECT statement, in the SQL of SQLite"`
	Rows int    `json:"max_rows,omitempty" jsonschema:"how many rows to return at most, 100 if not said, no more than 1000"`
}

// reply is what the tool returns.
type reply struct {
	Columns []string `json:"columns" jsonschema:"the names of the columns"`
	Rows    [][]any  `json:"rows" jsonschema:"the rows, each with a value for each column"`
	More    bool     `json:"more" jsonschema:"true if there are more rows: ask for fewer, or for sums"`
}

// instructions say what an agent needs to know before its first question.
const instructions = `ustack has read a trace of futex calls into tables: which threads waited for which locks,
who held them, with which user stacks. Read ustack://schema before the first query, and ustack://report for the summary.
Times in columns _ns are nanoseconds. Columns named line and ..._line are lines of the trace: cite them.
Rows of loss are times in which records were lost: say so if they can change an answer. NULL means unknown, never 0.`

// protocol returns the server with all that it has.
func (s *server) protocol() *mcp.Server {
	out := mcp.NewServer(&mcp.Implementation{Name: "ustack", Version: command.Version()}, &mcp.ServerOptions{Instructions: instructions})
	mcp.AddTool(out, &mcp.Tool{
		Name: "query", Description: "Answer one SELECT statement about the trace. ustack://schema has the tables.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(ctx context.Context, _ *mcp.CallToolRequest, q question) (*mcp.CallToolResult, *reply, error) {
		r, err := s.ask(ctx, q)
		return nil, r, err
	})
	s.resource(out, "report", "The report of ustack futex: which locks are waited for most, who holds them, what hangs.",
		func(context.Context) (string, error) { return s.loaded.Report, nil })
	s.resource(out, "stacks", "The stacks in which threads waited, the longest time first, with their time.", s.stacks)
	s.resource(out, "schema", "The tables with their columns, as SQL.", func(context.Context) (string, error) {
		var b strings.Builder
		err := tables.WriteSchema(&b)
		return b.String(), err
	})
	return out
}

// resource adds a resource that is text.
func (s *server) resource(to *mcp.Server, name, about string, text func(context.Context) (string, error)) {
	uri := "ustack://" + name
	to.AddResource(&mcp.Resource{URI: uri, Name: name, Description: about, MIMEType: "text/plain"},
		func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			body, err := text(ctx)
			if err != nil {
				return nil, err
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: strings.ToValidUTF8(body, "\ufffd")}}}, nil
		})
}

// ask answers a question.
func (s *server) ask(ctx context.Context, q question) (*reply, error) {
	if err := query.CheckSQL(q.SQL); err != nil {
		return nil, err
	}
	limit := q.Rows
	if limit <= 0 {
		limit = usualRows
	}
	limit = min(limit, mostRows)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &reply{Rows: [][]any{}}
	size, full := 0, false
	more, err := s.d.ask(ctx, q.SQL, s.f.Timeout, limit, func(columns []string) error {
		r.Columns = columns
		return nil
	}, func(values []any) error {
		row := make([]any, len(values))
		for i, v := range values {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			row[i] = v
		}
		text, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("a value has no form in JSON: %w", err)
		}
		if size += len(text); size > mostBytes {
			full = true
			return nil
		}
		r.Rows = append(r.Rows, row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.More = more || full
	return r, nil
}

// stacksSQL sums up the waits by stack.
const stacksSQL = `SELECT sum(w.ns), count(*), l.kind, coalesce(l.name, l.address), s.folded
FROM waits w JOIN stacks s ON s.id = w.stack LEFT JOIN locks l ON l.id = w.lock WHERE w.slept
GROUP BY w.lock, w.stack ORDER BY 1 DESC, w.stack`

// stacks lists the stacks in which threads waited.
func (s *server) stacks(ctx context.Context) (string, error) {
	r, err := s.ask(ctx, question{SQL: stacksSQL, Rows: mostRows})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("nanoseconds waits kind lock stack (outermost function first)\n")
	for _, row := range r.Rows {
		fmt.Fprintln(&b, row...)
	}
	if r.More {
		b.WriteString("and more\n")
	}
	return b.String(), nil
}

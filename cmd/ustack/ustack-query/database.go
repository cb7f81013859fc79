package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"ustack/cmd/ustack/internal/query"
	"ustack/cmd/ustack/internal/tables"
)

// database has the tables of one trace. It is a temporary one: pages that do not fit into
// its cache are in a file without a name in the directory for temporary files.
//
// Invariants:
//   - There is one connection, so one database.
//   - Once it is sealed, a statement can do nothing but read tables (allowed).
type database struct {
	db     *sql.DB
	conn   *sql.Conn
	tx     *sql.Tx
	insert map[string]*sql.Stmt
}

// Bounds of the database. A page that is longer in use than the cache is goes to the file.
const (
	cacheKiB  = 32 << 10
	heapLimit = 256 << 20 // bytes
	// maxValue bounds a value that a query can make, and a row.
	maxValue = 4 << 20
)

// openDatabase returns a database with empty tables.
func openDatabase(ctx context.Context) (d *database, err error) {
	d = &database{insert: make(map[string]*sql.Stmt)}
	if d.db, err = sql.Open("sqlite", ""); err != nil {
		return nil, fmt.Errorf("opening a temporary database: %w", err)
	}
	d.db.SetMaxOpenConns(1)
	if err := d.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("making a temporary database: %w", err), d.Close())
	}
	return d, nil
}

// begin makes the tables.
func (d *database) begin(ctx context.Context) (err error) {
	if d.conn, err = d.db.Conn(ctx); err != nil {
		return err
	}
	for _, pragma := range []string{
		"journal_mode=OFF", "synchronous=OFF", "temp_store=FILE",
		fmt.Sprintf("cache_size=-%d", cacheKiB), fmt.Sprintf("hard_heap_limit=%d", heapLimit),
	} {
		if _, err := d.conn.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return err
		}
	}
	if d.tx, err = d.conn.BeginTx(ctx, nil); err != nil {
		return err
	}
	for _, t := range tables.All() {
		if _, err := d.tx.ExecContext(ctx, t.SQL()); err != nil {
			return err
		}
		marks := strings.TrimSuffix(strings.Repeat("?,", len(t.Columns)), ",")
		if d.insert[t.Name], err = d.tx.PrepareContext(ctx, "INSERT INTO "+t.Name+" VALUES ("+marks+")"); err != nil {
			return err
		}
	}
	return nil
}

// Row implements tables.Sink.
func (d *database) Row(table string, values []any) error {
	if _, err := d.insert[table].Exec(values...); err != nil {
		return fmt.Errorf("filling the table %s (is there room for temporary files?): %w", table, err)
	}
	return nil
}

// seal ends the filling of the tables: from now on they can only be read.
func (d *database) seal(ctx context.Context) error {
	for _, s := range d.insert {
		if err := s.Close(); err != nil {
			return fmt.Errorf("filling the tables: %w", err)
		}
	}
	for _, t := range tables.All() {
		for _, column := range t.Indexes {
			if _, err := d.tx.ExecContext(ctx, fmt.Sprintf("CREATE INDEX %s_by_%s ON %s (%s)", t.Name, column, t.Name, column)); err != nil {
				return fmt.Errorf("indexing the table %s: %w", t.Name, err)
			}
		}
	}
	err := d.tx.Commit()
	d.tx = nil
	if err != nil {
		return fmt.Errorf("filling the tables: %w", err)
	}
	for id, most := range map[int]int{
		sqlite3.SQLITE_LIMIT_ATTACHED: 0, sqlite3.SQLITE_LIMIT_LENGTH: maxValue, sqlite3.SQLITE_LIMIT_SQL_LENGTH: query.MaxSQL,
		sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200, sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000, sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
	} {
		if _, err := sqlite.Limit(d.conn, id, most); err != nil {
			return fmt.Errorf("bounding queries: %w", err)
		}
	}
	return d.conn.Raw(func(c any) error {
		guard, ok := c.(sqlite.AuthorizerRegisterer)
		if !ok {
			return errors.New("the database cannot be made read-only")
		}
		return guard.RegisterAuthorizer(allowed)
	})
}

// allowed decides what a statement may do, while it is compiled: read tables, and call
// functions that have no effect. So there are no writes, no other files, no pragmas, no
// virtual tables.
func allowed(action sqlite.AuthorizerActionCode, _, name, _, _ string) sqlite.AuthorizerReturnCode {
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRead, sqlite.AuthRecursive:
		return sqlite.AuthorizerOK
	case sqlite.AuthFunction:
		if !strings.EqualFold(name, "load_extension") {
			return sqlite.AuthorizerOK
		}
	}
	return sqlite.AuthorizerDeny
}

// ask runs a query, and passes its columns, then its rows. Values are not kept. It ends after
// limit rows if that is not 0; more then reports whether there were more.
func (d *database) ask(ctx context.Context, text string, timeout time.Duration, limit int, columns func([]string) error, row func([]any) error) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("the query ran for longer than %v, and was ended (--timeout)", timeout)
		}
	}()
	rows, err := d.conn.QueryContext(ctx, text)
	if err != nil {
		return false, explain(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err == nil {
		err = columns(names)
	}
	if err != nil {
		return false, err
	}
	values, to := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		to[i] = &values[i]
	}
	for n := 0; rows.Next(); n++ {
		if limit > 0 && n == limit {
			return true, nil
		}
		if err := rows.Scan(to...); err != nil {
			return false, fmt.Errorf("reading the answer: %w", err)
		}
		if err := row(values); err != nil {
			return false, err
		}
	}
	return false, explain(rows.Err())
}

// explain says what a statement may be if that is why it failed.
func explain(err error) error {
	var failed *sqlite.Error
	if errors.As(err, &failed) && failed.Code()&0xff == sqlite3.SQLITE_AUTH {
		return fmt.Errorf("queries only read the tables of the trace (SELECT): %w", err)
	}
	return err
}

// Close removes the database.
func (d *database) Close() error {
	var err error
	if d.tx != nil { // of tables that could not be filled: it holds the connection
		err = d.tx.Rollback()
	}
	if d.conn != nil {
		err = errors.Join(err, d.conn.Close())
	}
	return errors.Join(err, d.db.Close())
}

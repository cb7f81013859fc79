package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/ustack-fleet/clickhouse"
)

// server names what a server has, file by file. The transport is nil but in tests.
func (s *symbolizer) server(ctx context.Context, transport http.RoundTripper) error {
	credentials, err := fleet.LoadCredentials(s.Credentials, os.Getenv)
	if err != nil {
		return err
	}
	client := clickhouse.New(s.Server, credentials, transport)
	client.Wait.Total = s.Retry
	ask := func(statement string, with ...clickhouse.External) (rows [][]*string, err error) {
		err = client.Wait.Retry(ctx, nil, func() error {
			rows, err = client.Query(ctx, statement, with...)
			return err
		})
		return rows, hint(err)
	}
	ids, err := ask("SELECT DISTINCT build_id FROM frames WHERE build_id IS NOT NULL AND offset IS NOT NULL ORDER BY build_id")
	if err != nil {
		return err
	}
	for _, row := range ids {
		if len(row) != 1 || row[0] == nil {
			return errPlace
		}
		if err := s.remoteObject(ctx, client, ask, *row[0]); err != nil {
			return err
		}
	}
	return nil
}

// errPlace: the server has answered something else than what was asked.
var errPlace = errors.New("the answer of the server is not a place in a file")

type asker func(statement string, with ...clickhouse.External) ([][]*string, error)

// remoteObject names the places of one file.
func (s *symbolizer) remoteObject(ctx context.Context, client *clickhouse.Client, ask asker, id string) error {
	asked := clickhouse.External{Name: "asked", Structure: "build_id String", Body: clickhouse.AppendString(nil, id)}
	o := &object{id: id}
	paths, err := ask(fmt.Sprintf("SELECT path FROM (SELECT path, max(rank) AS first FROM frames WHERE build_id GLOBAL IN (SELECT build_id FROM asked) AND path IS NOT NULL GROUP BY path) ORDER BY first DESC, path LIMIT %d", maxPaths), asked)
	if err != nil {
		return err
	}
	for _, row := range paths {
		if len(row) != 1 || row[0] == nil {
			return errPlace
		}
		o.addPath(*row[0])
	}
	known, err := ask("SELECT offset, ran, function, line, reason FROM functions FINAL WHERE build_id GLOBAL IN (SELECT build_id FROM asked)", asked)
	if err != nil {
		return err
	}
	old := make(map[place]*functionRow)
	for _, row := range known {
		at, err := placeOf(row, 5)
		if err != nil {
			return err
		}
		f := &functionRow{Function: row[2], Reason: row[4]}
		if row[3] != nil {
			f.Line = new(int64)
		}
		old[at] = f
	}
	places, err := ask("SELECT DISTINCT offset, ran FROM frames WHERE build_id GLOBAL IN (SELECT build_id FROM asked) AND offset IS NOT NULL ORDER BY offset, ran", asked)
	if err != nil {
		return err
	}
	for _, row := range places {
		at, err := placeOf(row, 2)
		if err != nil {
			return err
		}
		if f := old[at]; f == nil || !f.complete() {
			o.places = append(o.places, at)
		}
	}
	return s.sendNames(ctx, client, o, old)
}

// placeOf returns the place in the first two of some columns.
func placeOf(row []*string, columns int) (at place, err error) {
	if len(row) != columns || row[0] == nil || row[1] == nil {
		return at, errPlace
	}
	if at.offset, err = strconv.ParseInt(*row[0], 10, 64); err != nil {
		return at, errPlace
	}
	at.ran = *row[1] == "1"
	return at, nil
}

// sendNames names places, and sends the names that are better than those that the server has.
func (s *symbolizer) sendNames(ctx context.Context, client *clickhouse.Client, o *object, old map[place]*functionRow) error {
	rows := clickhouse.NewRows(functionColumns())
	for _, row := range s.namer.name(o) {
		before := old[place{row.Offset, row.Ran}]
		s.count(&row, before)
		if row.betterThan(before) {
			rows.Add(&row)
		}
	}
	if rows.Len() == 0 {
		return ctx.Err()
	}
	statement := insertInto(tableFunctions, "rank", functionColumns())
	return hint(client.Wait.Retry(ctx, nil, func() error {
		return client.Insert(ctx, statement, rows.Stamped(uint64(time.Now().UnixNano())))
	}))
}

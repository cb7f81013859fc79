package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/query"
	"ustack/cmd/ustack/internal/tables"
	"ustack/render"
)

// load reads a trace into a database. Its caller closes that.
func load(ctx context.Context, f *query.Flags, std command.Streams) (*database, *tables.Loaded, error) {
	d, err := openDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	loaded, err := f.Source().Load(std.In, std.Messages(), d)
	if err == nil {
		err = d.seal(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return d, loaded, nil
}

// queryCommand is "ustack query".
func queryCommand(args []string, std command.Streams) error {
	f, err := query.Parse(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	if f.Schema {
		return f.To.Stream(std.Out, tables.WriteSchema)
	}
	ctx := context.Background()
	d, _, err := load(ctx, f, std)
	if err != nil {
		return err
	}
	defer d.Close()
	return f.To.Stream(std.Out, func(out io.Writer) error { return answer(ctx, d, f, render.Output(out)) })
}

// answer writes the answer to a query.
func answer(ctx context.Context, d *database, f *query.Flags, out io.Writer) error {
	var w query.Writer
	_, err := d.ask(ctx, f.SQL, f.Timeout, 0, func(columns []string) (err error) {
		w, err = query.NewWriter(out, f.Format, columns)
		return err
	}, func(values []any) error { return w.Row(values) })
	if w == nil {
		return err
	}
	if cerr := w.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("writing the output: %w", cerr))
	}
	return err
}

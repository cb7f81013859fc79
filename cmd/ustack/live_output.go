package main

import (
	"fmt"
	"io"
	"os"

	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render"
	"ustack/render/outfile"
)

// liveOutput is the output of live.
type liveOutput struct {
	s   *session
	out io.Writer
	f   *os.File // nil: not ours to close
	// names are those of functions, nil for none.
	names *symbol.Symbols
}

func (o *liveOutput) open() error {
	o.out = o.s.stdout
	var err error
	o.names, err = o.s.f.symbols.Open("", o.s.stderr)
	o.s.names = o.names
	if err != nil || o.s.f.out == "" {
		return err
	}
	if o.f, err = outfile.Create(o.s.f.out); err != nil {
		return fmt.Errorf("creating the output: %w", err)
	}
	o.out = o.f
	return nil
}

func (o *liveOutput) renderer(res *resolve.Resolver) render.Renderer {
	f := o.s.f
	out := output.Events{
		JSON: f.format == "json", Wait: pump.HoldBytes,
		Text: render.TextOptions{BuildID: f.buildID, KeepMaps: f.keepMaps, Stitch: f.stitch},
	}
	return out.Renderer(render.Output(o.out), res, o.names)
}

func (o *liveOutput) step(*resolve.Totals) error { return nil }

func (o *liveOutput) close() error {
	if o.names != nil {
		o.names.Close()
		o.names = nil
	}
	if o.f == nil {
		return nil
	}
	err := o.f.Close()
	o.f = nil
	if err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

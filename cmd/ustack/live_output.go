package main

import (
	"fmt"
	"io"
	"os"

	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/outfile"
)

// liveOutput is the output of live.
type liveOutput struct {
	f      *liveFlags
	stdout io.Writer
	out    io.Writer
	file   *os.File // nil: not ours to close
	// names are the names of functions, nil for none.
	names *symbolize.Symbols
}

// Open implements live.Sink.
func (o *liveOutput) Open(*live.Start) (needs live.Needs, err error) {
	o.out = o.stdout
	o.names, err = o.f.symbols.Open("", nil)
	needs.Symbols = o.names
	needs.Lines = o.f.out == "" && render.IsTerminalWriter(render.Output(o.stdout))
	if err != nil || o.f.out == "" {
		return needs, err
	}
	if o.file, err = outfile.Create(o.f.out); err != nil {
		return needs, fmt.Errorf("creating the output: %w", err)
	}
	o.out = o.file
	return needs, nil
}

// Renderer implements live.Sink.
func (o *liveOutput) Renderer(res *resolve.Resolver) render.Renderer {
	f := o.f
	opt := output.Events{
		Wait: pump.HoldBytes,
		Text: render.TextOptions{BuildID: f.buildID, KeepMaps: f.keepMaps, Stitch: f.Stitch},
	}
	return output.Named(f.events.New(render.Output(o.out), opt, res), o.names)
}

// Step implements live.Sink. It is never done.
func (o *liveOutput) Step(*resolve.Totals) (done bool, err error) { return false, nil }

// End implements live.Sink.
func (o *liveOutput) End() error {
	if o.names != nil {
		o.names.Close()
		o.names = nil
	}
	if o.file == nil {
		return nil
	}
	err := o.file.Close()
	o.file = nil
	if err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

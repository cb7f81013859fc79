package main

import (
	"fmt"
	"io"
	"os"

	"ustack/filemap/resolve"
	"ustack/render"
)

// liveOutput is the output of live.
type liveOutput struct {
	s   *session
	out io.Writer
	f   *os.File // nil: not ours to close
}

func (o *liveOutput) open() error {
	o.out = o.s.stdout
	if o.s.f.out == "" {
		return nil
	}
	var err error
	if o.f, err = os.Create(o.s.f.out); err != nil {
		return fmt.Errorf("creating the output: %w", err)
	}
	o.out = o.f
	return nil
}

func (o *liveOutput) renderer(res *resolve.Resolver) render.Renderer {
	f := o.s.f
	if f.format == "json" {
		return render.NewJSON(render.Output(o.out), res, defaultHoldBytes)
	}
	return render.NewText(render.Output(o.out), render.TextOptions{BuildID: f.buildID, KeepMaps: f.keepMaps, Stitch: f.stitch})
}

func (o *liveOutput) step(*resolve.Totals) error { return nil }

func (o *liveOutput) close() error {
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

// Package pump drives the records of a trace through the resolver to a renderer, the
// same for a saved trace and for one that is being made.
//
// Batches stay in the order of the trace. Each goes back to its reader once it is
// rendered, so that memory is bounded by what the resolver keeps pending.
package pump

import (
	"fmt"
	"io"
	"time"

	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// Limits for holding records back. In the captures, of a slow machine with four
// CPUs, a mapping event comes at most 13 ms, 157 lines and 10 KB after its
// stack; these leave room for a hundred times as many CPUs, and no more, as what
// is pending falls out of the processor's caches. Stitching holds for longer:
// tasks sleep.
const (
	HoldLines         = 200_000
	HoldBytes         = 1 << 20
	StitchedHoldBytes = 2 << 20
	HoldTime          = time.Second
	StitchedHoldTime  = 10 * time.Second
	// HoldPause is how long an input may pause before pending records are rendered.
	HoldPause = 200 * time.Millisecond
)

// Hold returns the limits for names that come after their stacks.
func Hold() resolve.Limits {
	return resolve.Limits{Lines: HoldLines, Bytes: HoldBytes, Time: tracefs.Time(HoldTime)}
}

// StitchedHold returns the limits for stacks that go to their events, with as few bytes.
func StitchedHold() resolve.Limits {
	hold := Hold()
	hold.Time = tracefs.Time(StitchedHoldTime)
	return hold
}

// A keeper is a renderer that gives batches back itself, once it needs them no more.
type keeper interface{ keeps() }

// Run drives records from the trace through the resolver to the renderer, and calls
// step after each batch, and now and then if p ticks. Records that were read before
// an error are written before the error is returned.
func Run(p input.Batches, res *resolve.Resolver, w render.Renderer, step func()) (*resolve.Totals, error) {
	defer p.Close()
	for {
		b, err := p.Next()
		if b == nil && err == nil {
			step()
			continue
		}
		paused := b.Paused
		res.Add(b)
		if err != nil {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			if err := w.Batch(h); err != nil {
				return nil, fmt.Errorf("writing the output: %w", err)
			}
			if _, kept := w.(keeper); !kept {
				release(res, h, p.Free)
			}
		}
		if paused {
			if err := w.Flush(); err != nil {
				return nil, fmt.Errorf("writing the output: %w", err)
			}
		}
		step()
		if err == nil {
			continue
		}
		totals := res.Totals()
		if cerr := w.Close(totals); cerr != nil {
			return nil, fmt.Errorf("writing the output: %w", cerr)
		}
		if err == io.EOF {
			err = nil
		}
		return totals, err
	}
}

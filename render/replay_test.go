package render

// What the tests of this package share: a replay from text to a renderer.

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/filemap/symbolize"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// options are how a test replays.
type options struct {
	text   TextOptions
	names  symbol.Namer // nil for none
	json   bool
	ours   bool // text that ustack has written
	pauses bool // after each piece

	attributor resolve.Attributor
}

// named passes stacks with names to a renderer.
type named struct {
	Renderer
	stage *symbolize.Stage
}

func (n *named) Batch(h *resolve.Pending) error {
	n.stage.Batch(h)
	return n.Renderer.Batch(h)
}

// replayed is what comes out of the pieces of a trace.
func replayed(t testing.TB, opt options, pieces ...string) string {
	t.Helper()
	stitch := opt.json || opt.text.Stitch
	scan := text.NewScanner()
	scan.Events = stitch
	if opt.ours {
		scan.UseEscapes()
	}
	res := resolve.New(resolve.Options{Stitch: stitch, Attributor: opt.attributor})
	var out bytes.Buffer
	var r Renderer = NewText(&out, opt.text)
	if opt.json {
		r = NewJSON(&out, res, 1<<20)
	}
	if opt.names != nil {
		r = &named{r, symbolize.NewStage(opt.names)}
	}
	pos, line, tail := int64(0), int64(0), ""
	for i, piece := range pieces {
		piece = tail + piece
		b := &tracefs.Batch{Text: []byte(piece), Pos: pos, Line: line, Paused: opt.pauses}
		more := text.MoreLater
		if i == len(pieces)-1 {
			more = text.MoreNever
		}
		used, err := scan.Scan(b, more)
		if err != nil || used != len(piece) && more == text.MoreNever {
			t.Fatalf("%d of %d bytes taken, error %v", used, len(piece), err)
		}
		pos, line, tail = pos+int64(used), line+b.Lines, piece[used:]
		res.Add(b)
		if more == text.MoreNever {
			res.End()
		}
		render(t, res, r, b.Paused)
	}
	if err := r.Close(res.Totals()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// render writes what the resolver has made up its mind about.
func render(t testing.TB, res *resolve.Resolver, r Renderer, flush bool) {
	t.Helper()
	for h := res.Next(); h != nil; h = res.Next() {
		if err := r.Batch(h); err != nil {
			t.Fatal(err)
		}
		res.Release(h)
	}
	if flush {
		if err := r.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// line is a line of a trace in the usual layout.
func line(comm string, tid int, stamp, body string) string {
	return fmt.Sprintf("%16s-%-7d [001] ..... %12s: %s\n", comm, tid, stamp, body)
}

// broken is a writer that takes some bytes and then no more.
type broken struct{ room int }

func (w *broken) Write(b []byte) (int, error) {
	if len(b) > w.room {
		return 0, io.ErrShortWrite
	}
	w.room -= len(b)
	return len(b), nil
}

package pump

import (
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// RunBeside is Run with the renderer in a goroutine of its own, so that both share the
// work of two processors. It is for renderers that take batches one after the other, and
// need nothing of the resolver and of the trace before the end.
func RunBeside(p input.Batches, res *resolve.Resolver, w render.Renderer) (*resolve.Totals, error) {
	b := &beside{w: w, todo: make(chan *resolve.Pending, ahead), done: make(chan *resolve.Pending, ahead+2)}
	b.free = func(h *resolve.Pending) { release(res, h, p.Free) }
	go b.render()
	totals, err := Run(p, res, b, func() {})
	_ = b.end() // where Run has not come to its end
	return totals, err
}

// ahead is how many batches wait for the renderer.
const ahead = 3

// A preparer is a renderer that can do a part of its work on a batch before that is the
// next one, while another goroutine has it render an earlier one.
type preparer interface{ Prepare(h *resolve.Pending) }

// beside passes batches to a renderer in another goroutine. It implements render.Renderer
// and keeper.
type beside struct {
	w    render.Renderer
	free func(*resolve.Pending)
	todo chan *resolve.Pending
	done chan *resolve.Pending
	err  error // right once done is closed
	over bool  // todo is closed
}

// render renders batches until there are no more, or one cannot be rendered.
func (b *beside) render() {
	defer close(b.done)
	for h := range b.todo {
		if b.err = b.w.Batch(h); b.err != nil {
			return
		}
		b.done <- h
	}
}

// Batch implements render.Renderer. It fails if an earlier batch could not be rendered.
func (b *beside) Batch(h *resolve.Pending) error {
	if p, ok := b.w.(preparer); ok {
		p.Prepare(h)
	}
	for {
		select {
		case b.todo <- h:
			return nil
		case back, ok := <-b.done:
			if !ok {
				return b.err
			}
			b.free(back)
		}
	}
}

// keeps implements keeper.
func (b *beside) keeps() {}

// end waits until all batches are rendered.
func (b *beside) end() error {
	if !b.over {
		b.over = true
		close(b.todo)
	}
	for back := range b.done {
		b.free(back)
	}
	return b.err
}

// Flush implements render.Renderer. What is rendered has nothing to show before the end.
func (b *beside) Flush() error { return nil }

// Close implements render.Renderer.
func (b *beside) Close(t *resolve.Totals) error {
	if err := b.end(); err != nil {
		return err
	}
	return b.w.Close(t)
}

// release gives a batch back to the resolver, and to the reader what nothing needs then.
func release(res *resolve.Resolver, h *resolve.Pending, free func(*tracefs.Batch)) {
	for b := res.Release(h); b != nil; b = res.Release(nil) {
		free(b)
	}
}

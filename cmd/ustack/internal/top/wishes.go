package top

import (
	"sync"
	"time"

	"ustack/render/futex"
)

// wishes are what the screen wants of the analysis. Neither waits for the other.
type wishes struct {
	mu     sync.Mutex
	view   view
	orders []order
}

// view is what snapshots are to have.
type view struct {
	By   futex.By
	Open Key // the lock whose text is wanted, "" for none
}

// order is something to do once.
type order struct {
	what task
	keep time.Duration // of orderKeep, 0 for none
}

type task uint8

const (
	orderMark task = iota
	orderKeep      // the last part of the trace
	orderText      // save a report
	orderHTML
	orderQuit
)

// maxOrders bounds the orders that have not been taken: a key may be held down.
const maxOrders = 8

// see changes what snapshots have.
func (w *wishes) see(v view) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.view = v
}

// want returns what snapshots are to have.
func (w *wishes) want() view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view
}

// give gives an order.
func (w *wishes) give(o order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.orders) < maxOrders || o.what == orderQuit {
		w.orders = append(w.orders, o)
	}
}

// take returns the orders given since.
func (w *wishes) take() []order {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.orders
	w.orders = nil
	return list
}

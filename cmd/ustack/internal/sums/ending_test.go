//go:build !device && (amd64 || arm64)

package sums

import (
	"os"
	"syscall"
	"testing"

	"ustack/cmd/ustack/internal/signals"
)

// wakes counts how often the reader is woken, and what over says then.
type wakes struct {
	source
	s    *session
	over chan bool
}

func (w *wakes) Wake() error {
	w.over <- w.s.over()
	return nil
}

// TestTake: the reader is woken by the first signal, and looks at nothing else then; the second one ends
// the program.
func TestTake(t *testing.T) {
	exits := make(chan int)
	s := &session{opt: &Options{Exit: func(code int) { exits <- code }}, signals: make(chan os.Signal, 4), stop: make(chan struct{}), quit: make(chan struct{})}
	w := &wakes{s: s, over: make(chan bool)}
	s.source = w
	if s.over() {
		t.Error("over before it begins")
	}
	go s.take()
	s.signals <- syscall.SIGTERM
	if !<-w.over || !s.over() {
		t.Error("the reader looked, and there was no signal")
	}
	s.signals <- syscall.SIGINT
	if code := <-exits; code != signals.Base+int(syscall.SIGINT) {
		t.Errorf("exit code %d", code)
	}
}

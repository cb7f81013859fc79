//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

var floor = flag.Bool("floor", false, "attach programs that do nothing where ours are, until SIGINT comes")

// TestFloor is what ".ci/bpfcost" runs beside ustack: what it costs that the kernel calls a program
// at the entry and the return of each system call, whatever the program does.
func TestFloor(t *testing.T) {
	if !*floor {
		t.Skip("not a test: -args -floor attaches programs that do nothing")
	}
	if err := new(empty).Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, "attached")
	over := make(chan os.Signal, 1)
	signal.Notify(over, os.Interrupt)
	<-over
}

// empty is programs that do nothing where ours are.
type empty struct{ links []link.Link }

// Start attaches them.
func (e *empty) Start() error {
	for _, at := range []string{"sys_enter", "sys_exit"} {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: at, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
		if err != nil {
			return err
		}
		defer p.Close()
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return err
		}
		e.links = append(e.links, l)
	}
	return nil
}

// Stop detaches them.
func (e *empty) Stop() error {
	var failed []error
	for _, l := range e.links {
		failed = append(failed, l.Close())
	}
	e.links = nil
	return errors.Join(failed...)
}

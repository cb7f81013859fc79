//go:build !device && (amd64 || arm64)

package bpffutex

import (
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
	for _, at := range []string{"sys_enter", "sys_exit"} {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: at, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	fmt.Fprintln(os.Stderr, "attached")
	over := make(chan os.Signal, 1)
	signal.Notify(over, os.Interrupt)
	<-over
}

//go:build !device

package sideband

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/filemap/procmap"
	"ustack/tracefs/instance"
)

// TestLoadGap: between the segments of a program is nothing, though the kernel reports the first
// one as long as the whole program.
func TestLoadGap(t *testing.T) {
	if os.Getpagesize() != 4096 {
		t.Skip("the program has pages of 4 KiB")
	}
	var opt Options
	if root, err := instance.Find(""); err == nil {
		opt.ExecEvent, _ = root.ID(instance.Event{System: "sched", Name: "sched_process_exec"})
	}
	if opt.ExecEvent == 0 {
		t.Skip("the kernel does not report when a program is ready to run")
	}
	b, r := openBand(t, opt)
	const linked, getpid = 0x400000, 20
	name := filepath.Join(t.TempDir(), "gap")
	program := int80Program(getpid, 0, 0, 0, 0, 0)
	program[16] = 3 // ET_DYN: so it is with these
	if err := os.WriteFile(name, program, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err) // a program of another machine
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	var p procmap.Process
	if err := r.Process(cmd.Process.Pid, &p); err != nil {
		t.Fatal(err)
	}
	base := p.Mappings[0].Start
	now := b.Now()
	if _, err := b.Drain(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   uint64
		want bool
	}{{base + 0x10, true}, {base + 4096 + 0x10, false}, {base - linked + int80Addr - 0x10, false}, {base - linked + int80Addr + 0x10, true}} {
		p, ok := b.History.Lookup(cmd.Process.Pid, c.at, now)
		if ok && p.Late {
			t.Errorf("%#x is late", c.at)
		}
		if ok = ok && p.Mapping.File.Name == name; ok != c.want {
			t.Errorf("%#x: the program's is %t, want %t", c.at, ok, c.want)
		}
	}
}

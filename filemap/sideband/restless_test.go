package sideband

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"

	"ustack/filemap/procmap"
)

// TestRestless reads a process over and over that goes on to change its
// memory. Once it is stopped, what is known is what it has.
func TestRestless(t *testing.T) {
	h := startHelper(t, "change", mappedLibrary(t))
	change := func() {
		if _, err := h.in.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
	}
	change()
	b, r := openBand(t, Options{RingSize: 8 << 20})
	under := 0
	for range 10 {
		change()
		if err := b.Read(r, h.pid(), 0); err != nil {
			t.Fatal(err)
		}
		if b.watch.changed {
			under++
		}
		drain(t, b)
	}
	t.Logf("%d of 10 readings were overtaken", under)
	if err := h.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitStopped(t, h.pid())
	drain(t, b)
	compareRestless(t, b, h.pid())
	if err := b.Read(r, h.pid(), 0); err != nil {
		t.Fatal(err)
	}
	compareRestless(t, b, h.pid())
}

// waitStopped waits until a process stands still.
func waitStopped(t *testing.T, pid int) {
	t.Helper()
	r, err := procmap.NewReader(procmap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		tids, err := r.Threads(pid)
		if err != nil {
			t.Fatal(err)
		}
		stopped := 0
		for _, tid := range tids {
			if s, err := r.Stat(tid); err == nil && s.State == 'T' {
				stopped++
			}
		}
		if stopped == len(tids) {
			return
		}
	}
}

// compareRestless compares, page by page, what is known of a process with its
// text: also what it has unmapped is known.
func compareRestless(t *testing.T, b *Band, pid int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	now := b.Now()
	has := make(map[uint64]bool)
	for line := range bytes.Lines(text) {
		m, err := procmap.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		if m.Perms&procmap.Exec == 0 || m.Kind == procmap.Vsyscall {
			continue
		}
		for addr := m.Start; addr < m.End; addr += page {
			has[addr] = true
			p, ok := b.History.Lookup(pid, addr, now)
			if !ok || p.Late || p.Mapping.File.Name != m.Name || m.Inode != 0 && p.Offset != m.FileOffset(addr) {
				t.Errorf("%#x is in %+v, %v, want %s", addr, p, ok, line)
			}
		}
	}
	versions := b.History.Spaces.Space(pid).Versions()
	for m := range versions[len(versions)-1].Mappings.All() {
		for addr := m.Start; addr < m.End && m.File.Kind != procmap.Vsyscall; addr += page {
			if !has[addr] {
				t.Errorf("%#x is still in %+v", addr, m)
			}
		}
	}
}

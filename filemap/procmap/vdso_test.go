package procmap

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// vdsoOf returns the mapping of a process's vDSO, read from one source.
func vdsoOf(t *testing.T, pid int, opt Options) (found Mapping) {
	t.Helper()
	r, err := NewReader(opt)
	if err != nil {
		t.Fatal(err)
	}
	var p Process
	if err := r.Process(pid, &p); err != nil {
		t.Fatal(err)
	}
	for _, m := range p.Mappings {
		if m.Name == "[vdso]" {
			found = m
		}
	}
	if found.End == 0 {
		t.Skip("no vDSO")
	}
	return found
}

// TestVDSO: a vDSO that is not the one of all 64-bit programs is other memory of the
// kernel's, if that is asked for, whatever reads it. Another one is made of that of a
// process, as a debugger can write there.
func TestVDSO(t *testing.T) {
	cat := exec.Command("cat")
	if in, err := cat.StdinPipe(); err != nil || cat.Start() != nil {
		t.Fatal(err)
	} else {
		defer func() { _, _ = in.Close(), cat.Wait() }()
	}
	pid, sources := cat.Process.Pid, []Source{Text}
	if _, err := NewReader(Options{Source: Ioctl}); err == nil {
		sources = append(sources, Ioctl)
	}
	compare := func(what string, want Kind) {
		t.Helper()
		for _, source := range sources {
			if m := vdsoOf(t, pid, Options{Source: source, VDSO: true}); m.Kind != want {
				t.Errorf("%s, by %v: %v, want %v", what, source, m.Kind, want)
			}
			if m := vdsoOf(t, pid, Options{Source: source}); m.Kind != VDSO {
				t.Errorf("%s, by %v: %v without the option", what, source, m.Kind)
			}
		}
	}
	compare("as the kernel made it", VDSO)
	mem, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/mem", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer mem.Close()
	const class = 4 // of e_ident
	at := int64(vdsoOf(t, pid, Options{}).Start)
	if _, err := mem.WriteAt([]byte{1}, at+class); err != nil {
		t.Skipf("the kernel lets nobody write there: %v", err)
	}
	compare("as 32-bit programs have it", Special)
}

// BenchmarkVDSO shows what the comparison costs a reading.
func BenchmarkVDSO(b *testing.B) {
	benchProcesses(b, func(b *testing.B, pid int) {
		var c contest
		for i, name := range []string{"plain", "compared"} {
			r, err := NewReader(Options{Filter: Filter{Perms: Exec}, Stat: true, VDSO: i > 0})
			if err != nil {
				b.Fatal(err)
			}
			var p Process
			c.add(name, func() error { return r.Process(pid, &p) })
		}
		c.run(b)
	})
}

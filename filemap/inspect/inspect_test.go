package inspect

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/anoncode"
	"ustack/filemap/fusetest"
	"ustack/filemap/openfile"
	"ustack/filemap/unwind/health"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/perf/perftest"
)

func inspector(t *testing.T, opt Options) *Inspector {
	t.Helper()
	i, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	return i
}

// tiny writes a small program of the tests of package unwind.
func tiny(t *testing.T, program, to string) string {
	t.Helper()
	b := capturetest.Gunzip(t, "../unwind/testdata/tiny/"+program+".gz")
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestFile: files that the user names.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	i := inspector(t, Options{})
	s := i.File(tiny(t, "amd64-fp", filepath.Join(dir, "fp")))
	if s.Err != nil || s.Report.FramePointers != health.Kept || s.Debug != "" || len(s.Tries) == 0 {
		t.Errorf("%+v", s)
	}
	text, pipe, link := filepath.Join(dir, "text"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(text, []byte("text"), 0o600), unix.Mkfifo(pipe, 0o600), os.Symlink("fp", link)); err != nil {
		t.Fatal(err)
	}
	if s := i.File(link); s.Err != nil || s.Path != link {
		t.Errorf("a link: %+v", s)
	}
	if s := i.File(text); !s.NotELF || !strings.Contains(s.Err.Error(), text) {
		t.Errorf("a text: %v", s.Err)
	}
	for name, want := range map[string]error{
		dir: errDirectory, pipe: openfile.ErrIrregular, filepath.Join(dir, "none"): fs.ErrNotExist, "/dev/null": openfile.ErrIrregular,
		"/proc/self/environ": openfile.ErrKernel, "": fs.ErrNotExist,
	} {
		if s := i.File(name); !errors.Is(s.Err, want) || s.Report != nil {
			t.Errorf("%q: %v, want %v", name, s.Err, want)
		}
	}
}

// TestDebugFile: the separate debug file is found by its build ID, and has to have it.
func TestDebugFile(t *testing.T) {
	dir := t.TempDir()
	program := tiny(t, "amd64", filepath.Join(dir, "program"))
	id := inspector(t, Options{}).File(program).Report.BuildID.Hex()
	place := filepath.Join(dir, "debug", id[:2], id[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		t.Fatal(err)
	}
	i := inspector(t, Options{DebugDirs: []string{filepath.Join(dir, "debug")}})
	tiny(t, "amd64-debug", place) // of another program
	if s := i.File(program); s.Err != nil || s.Debug != "" || s.Report.Separate.Found {
		t.Errorf("another file: %+v", s)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if s := i.File(program); s.Err != nil || s.Debug != place || s.Report.Separate.Names != s.Report.Names {
		t.Errorf("%+v", s)
	}
	if s := i.File(place); s.Err != nil || s.Debug != "" {
		t.Errorf("a file that is its own debug file: %+v", s)
	}
	if _, err := New(Options{DebugDirs: []string{program}}); err == nil {
		t.Error("a debug directory that is none")
	}
}

// TestProcess: the files that a process runs code of, also one that is deleted; and
// each only once.
func TestProcess(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Skip(err)
	}
	name := filepath.Join(t.TempDir(), "sleep\x1b[31m")
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "600")
	cmd.Args[0] = "sleep" // for programs with many names
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	i := inspector(t, Options{VDSO: anoncode.VDSOMemory})
	var seen []string
	for _, pid := range []int{cmd.Process.Pid, cmd.Process.Pid} {
		p, err := i.Process(pid, func(s *health.Target) error {
			seen = append(seen, s.Path)
			if errors.Is(s.Err, fs.ErrPermission) {
				t.Skip(s.Err) // map_files needs CAP_CHECKPOINT_RESTORE
			}
			if s.Path == "[vdso]" && s.Err == nil && slices.Contains(s.Report.Reasons(), health.ExportsOnly) {
				t.Error("the vDSO lacks names")
			}
			if s.Err != nil || s.Report.Unwound() != health.Through || s.PID != pid {
				t.Errorf("%+v", s)
			}
			return nil
		})
		if err != nil || p.PID != pid || p.Name == "" {
			t.Errorf("%+v, %v", p, err)
		}
	}
	list := strings.Join(seen, "\n")
	if strings.Count(list, name+" (deleted)") != 1 || strings.Count(list, "[vdso]") != 1 {
		t.Errorf("%q", list)
	}
	if _, err := i.Process(1<<22, func(*health.Target) error { return nil }); err == nil {
		t.Error("a process that cannot be")
	}
}

// run starts a program that waits, until the end of the test.
func run(t *testing.T, name string, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Args[0] = "sleep" // for programs with many names
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// TestVDSO32: the vDSO of a 32-bit process is not the one that is looked at, which a
// 64-bit process after it has.
func TestVDSO32(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is for amd64")
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, perftest.Program32(), 0o755); err != nil {
		t.Fatal(err)
	}
	i := inspector(t, Options{VDSO: anoncode.VDSOMemory})
	for _, c := range []struct {
		pid  int
		vdso bool
	}{{run(t, name), false}, {run(t, sleep, "600"), true}} {
		var seen []string
		p, err := i.Process(c.pid, func(s *health.Target) error {
			seen = append(seen, s.Path)
			return nil
		})
		if err != nil || slices.Contains(seen, "[vdso]") != c.vdso {
			t.Errorf("%+v, %v: %q, want the vDSO: %v", p, err, seen, c.vdso)
		}
	}
}

// TestExecutableStack: a program whose stack is executable, as gcc -z execstack links it,
// is no JIT compiler.
func TestExecutableStack(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Skip(err)
	}
	const header, flagsAt = 56, 4 // of Elf64_Phdr
	phoff, changed := binary.NativeEndian.Uint64(b[32:]), false
	for k := range uint64(binary.NativeEndian.Uint16(b[56:])) {
		if h := b[phoff+k*header:]; elf.ProgType(binary.NativeEndian.Uint32(h)) == elf.PT_GNU_STACK {
			binary.NativeEndian.PutUint32(h[flagsAt:], uint32(elf.PF_R|elf.PF_W|elf.PF_X))
			changed = true
		}
	}
	if !changed {
		t.Skipf("%s has no PT_GNU_STACK", sleep)
	}
	name := filepath.Join(t.TempDir(), "sleep")
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	pid := run(t, name, "600")
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil || !regexp.MustCompile(`(?m) rwxp .*\[stack\]$`).Match(maps) {
		t.Skipf("no executable stack (%v):\n%s", err, maps)
	}
	p, err := inspector(t, Options{}).Process(pid, func(*health.Target) error { return nil })
	if err != nil || p.Bare != 0 || p.BareBytes != 0 {
		t.Errorf("%+v, %v: the stack is no compiler's code", p, err)
	}
}

// TestBareCode: code that a process has made itself.
func TestBareCode(t *testing.T) {
	const size = 1 << 20
	code, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Munmap(code)
	p, err := inspector(t, Options{}).Process(os.Getpid(), func(*health.Target) error { return nil })
	if err != nil || p.Bare == 0 || p.BareBytes < size {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestSilentServer: a server that gives no answer keeps no one waiting.
func TestSilentServer(t *testing.T) {
	s := fusetest.Start(t, []byte("\x7fELF"))
	i := inspector(t, Options{})
	s.Silence()
	if s := i.File(s.Dir + "/other.so"); s.Err == nil || !strings.Contains(s.Err.Error(), "no answer in time") {
		t.Errorf("%+v", s)
	}
}

package procmap

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// helperMode, in the environment, makes the test program a process to look at.
const helperMode = "USTACK_TEST_HELPER"

// init keeps the first thread for who will end it.
func init() {
	if os.Getenv(helperMode) == "heir" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(helperMode); mode != "" {
		helper(mode)
		return
	}
	os.Exit(m.Run())
}

// helper maps what its mode says, reports that, and waits for the end of
// its standard input.
func helper(mode string) {
	var err error
	switch mode {
	case "libraries":
		err = mapLibraries(os.Args[1:])
	case "many":
		err = mapMany()
	case "holes":
		err = mapHoles()
	case "read":
		err = readAsOther(os.Args[1])
	case "heir":
		go func() {
			fmt.Println("ready")
			waitForEnd()
			os.Exit(0)
		}()
		syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // of the first thread, see init
	case "held":
		if _, err = os.Open(os.Args[1]); err == nil {
			fmt.Println("ready")
			waitForEnd()
			// As a helper again: once the exec is released, the new program must not run the tests.
			err = syscall.Exec("/proc/self/exe", os.Args[:1], []string{helperMode + "=libraries"})
		}
	case "exec":
		fmt.Println("ready")
		waitForEnd()
		os.Unsetenv(helperMode)
		err = syscall.Exec("/bin/cat", []string{"cat"}, nil)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	waitForEnd()
}

func waitForEnd() { _, _ = io.Copy(io.Discard, os.Stdin) }

// mapLibraries maps files as the dynamic linker of glibc does: in five pieces,
// one of which is executable, and memory after the last one.
func mapLibraries(files []string) error {
	const page = 4096
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		for i, prot := range []int{unix.PROT_READ, unix.PROT_READ | unix.PROT_EXEC, unix.PROT_READ, unix.PROT_READ, unix.PROT_READ | unix.PROT_WRITE} {
			if _, err := unix.Mmap(int(f.Fd()), int64(i/2*page), page, prot, unix.MAP_PRIVATE); err != nil {
				return fmt.Errorf("mapping %s: %w", name, err)
			}
		}
		f.Close()
		if _, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return fmt.Errorf("mapping memory: %w", err)
		}
	}
	return nil
}

// manyMappings is near the kernel's limit, vm.max_map_count (65530).
const manyMappings = 65000

// mapMany makes many mappings: pages that are executable and not, in turn.
func mapMany() error {
	const page = 4096
	b, err := unix.Mmap(-1, 0, (manyMappings+1)*page, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	for i := 0; i < manyMappings; i += 2 {
		if err := unix.Mprotect(b[i*page:(i+1)*page], unix.PROT_READ|unix.PROT_EXEC); err != nil {
			return fmt.Errorf("page %d: %w", i, err)
		}
	}
	return nil
}

// helperProcess is a running helper.
type helperProcess struct {
	pid int
	in  io.Closer
	cmd *exec.Cmd
}

// startHelper starts a helper and waits until it is ready.
func startHelper(t testing.TB, mode string, args ...string) *helperProcess {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), helperMode+"="+mode)
	return startCmd(t, cmd)
}

func startCmd(t testing.TB, cmd *exec.Cmd) *helperProcess {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the helper says %q (%v)", line, err)
	}
	return &helperProcess{pid: cmd.Process.Pid, in: in, cmd: cmd}
}

// needIoctl returns a Reader by ioctl, or skips the test.
func needIoctl(t testing.TB, opt Options) *Reader {
	t.Helper()
	opt.Source = Ioctl
	r, err := NewReader(opt)
	if err != nil {
		skip(t, "no PROCMAP_QUERY here: %v", err)
	}
	return r
}

// skip skips a test that needs more than this machine has, or fails it where
// that must not be.
func skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func needText(t testing.TB, opt Options) *Reader {
	t.Helper()
	opt.Source = Text
	r, err := NewReader(opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bothSources runs a test with a Reader for each source.
func bothSources(t *testing.T, opt Options, test func(t *testing.T, r *Reader)) {
	t.Run("ioctl", func(t *testing.T) { test(t, needIoctl(t, opt)) })
	t.Run("text", func(t *testing.T) { test(t, needText(t, opt)) })
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "needs root")
	}
}

// needMapFiles skips a test that reads files which no path leads to: deleted
// ones, a memfd. Following a link in /proc/PID/map_files takes a capability
// (proc_map_files_get_link in fs/proc/base.c), which root of a container lacks.
func needMapFiles(t testing.TB) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/map_files/*")
	if err == nil && len(links) > 0 {
		_, err = os.Stat(links[0])
	}
	if err != nil || len(links) == 0 {
		skip(t, "following links in /proc/PID/map_files needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN: %v", err)
	}
}

// systemLibraries are some ELF files of at least four pages.
func systemLibraries(t testing.TB, n int) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"/usr/lib/*-linux-gnu/*.so*", "/usr/lib64/*.so*", "/usr/bin/*"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			info, err := os.Lstat(name)
			if err != nil || !info.Mode().IsRegular() || info.Size() < 1<<14 || len(list) == n {
				continue
			}
			if f, err := os.Open(name); err == nil {
				var magic [4]byte
				if _, err := io.ReadFull(f, magic[:]); err == nil && string(magic[:]) == "\x7fELF" {
					list = append(list, name)
				}
				f.Close()
			}
		}
	}
	if len(list) < n {
		t.Skipf("only %d ELF files on this machine, %d wanted", len(list), n)
	}
	return list
}

// rawLines are the lines of /proc/PID/maps that a filter on the permissions
// lets through, "" for none.
func rawLines(pid int, perms string) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	var lines []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if fields := strings.Fields(line); len(fields) > 1 && strings.Contains(fields[1], perms) {
			lines = append(lines, line)
		}
	}
	return lines, err
}

// ourLines are the mappings of a process as lines of /proc/PID/maps.
func ourLines(p *Process) []string {
	var lines []string
	for i := range p.Mappings {
		lines = append(lines, string(p.Mappings[i].AppendText(nil)))
	}
	return lines
}

// startHeap starts a process that has moved its break, and returns its PID.
func startHeap(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", "echo ready; read x")
	return startCmd(t, cmd).pid
}

// Program guest is the first process of a kernel that lab has booted: it makes
// what a hostile user can make, runs ustack, and says what came of it. Lines of
// its report begin with "GUEST: "; FAIL in one is a failure.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 {
		if err := helper(os.Args[1], os.Args[2:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if err := prepare(); err != nil {
		say("FAIL: %v", err)
	} else {
		run()
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		say("FAIL: powering off: %v", err)
	}
}

// say writes a line of the report.
func say(format string, args ...any) {
	for line := range strings.Lines(strings.TrimSpace(fmt.Sprintf(format, args...))) {
		fmt.Println("GUEST: " + strings.TrimRight(line, "\n"))
	}
}

// prepare mounts what is needed, and loads the modules for the disk.
func prepare() error {
	for _, m := range []struct{ kind, at, options string }{
		{"devtmpfs", "/dev", ""}, {"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"tmpfs", "/tmp", "mode=1777"},
		{"tmpfs", "/dev/shm", "mode=1777"}, {"tracefs", "/sys/kernel/tracing", ""},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mounting %s: %w", m.at, err)
		}
	}
	modules, err := filepath.Glob("/modules/*")
	if err != nil {
		return err
	}
	for _, name := range modules {
		if err := load(name); err != nil {
			return err
		}
	}
	for range 100 {
		if err = unix.Mount("/dev/vda", "/disk", "ext4", 0, ""); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("mounting /dev/vda: %w", err)
}

func load(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
		return fmt.Errorf("loading %s: %w", name, err)
	}
	return nil
}

// run is all that is tried.
func run() {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	say("Linux %s", release)
	if locked() {
		say("the kernel is locked down: confidentiality")
		tryLocked()
		say("done")
		return
	}
	if err := makeCopies(); err != nil {
		say("FAIL: %v", err)
	}
	tryTests()
	tryLive()
	tryClean()
	var all []*exec.Cmd
	for _, kind := range holes {
		cmd, err := startHole(kind)
		if err != nil {
			say("no %s: %v", kind, err)
			continue
		}
		all = append(all, cmd)
	}
	say("%d processes map what should not be asked about", len(all))
	quiet := newKernelLog()
	for _, c := range commands {
		c.run()
		if bad := quiet.faults(); bad != "" {
			say("FAIL: after %s the kernel says\n%s", c.name, bad)
			return // it may be of no use from now on
		}
	}
	checkIDs(len(all))
	for _, cmd := range all {
		cmd.Process.Kill()
		cmd.Wait()
	}
	say("done")
	control(quiet)
}

// kernelLog is the kernel's messages from now on.
type kernelLog struct{ fd int }

func newKernelLog() *kernelLog {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		say("FAIL: opening /dev/kmsg: %v", err)
	}
	k := &kernelLog{fd}
	k.faults()
	return k
}

// faults are the messages that look like one.
func (k *kernelLog) faults() string {
	var bad strings.Builder
	buf := make([]byte, 8192)
	for {
		n, err := unix.Read(k.fd, buf)
		switch {
		case err == unix.EPIPE, err == unix.EINTR: // some were overwritten
			continue
		case err != nil || n <= 0:
			return bad.String()
		}
		_, text, _ := strings.Cut(string(buf[:n]), ";")
		text, _, _ = strings.Cut(text, "\n")
		for _, word := range []string{"BUG", "Oops", "WARNING", "general protection", "blocked for more", "procmap", "read_folio", "build_id"} {
			if strings.Contains(text, word) {
				bad.WriteString(text + "\n")
				break
			}
		}
	}
}

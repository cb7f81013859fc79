package sideband

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/space"
	"ustack/tracefs/perf"
)

// helperMode, in the environment, makes the test program a process to look at.
const helperMode = "USTACK_TEST_HELPER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(helperMode); mode != "" {
		if err := helpers[mode](os.Args[1:]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// helpers do what their test wants and print what they did.
var helpers = map[string]func(args []string) error{
	"map":    helpMap,
	"exec":   helpExec,
	"change": helpChange,
	"thread": helpThreads,
	"idle":   func([]string) error { return nil },
	"chroot": helpChroot,
	"pivot":  helpPivot,
	"open":   helpOpen,
	"memory": helpMemory,
	"within": helpWithin,
	"mapped": helpMapped,
	"heir":   helpHeir,
}

const page = 4096

func mono() int64 { return int64(perf.Now(unix.CLOCK_MONOTONIC)) }

// say prints what was done to memory, and between which times.
func say(what string, mem []byte, from int64) {
	fmt.Printf("%s %#x %d %d %d\n", what, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), len(mem), from, mono())
}

// helpMap makes executable mappings of all sorts.
func helpMap(args []string) error {
	const rw, rx = unix.PROT_READ | unix.PROT_WRITE, unix.PROT_READ | unix.PROT_EXEC
	const private = unix.MAP_PRIVATE | unix.MAP_ANON
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	t := mono()
	file, err := unix.Mmap(int(f.Fd()), page, 2*page, rx, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	say("file", file, t)
	// At addresses of their own: the kernel joins neighbours that are alike.
	area, err := unix.Mmap(-1, 0, 100*page, unix.PROT_NONE, private)
	if err != nil {
		return err
	}
	for i, what := range []string{"jit", "made", "named", "moved", "flip"} {
		mem := area[10*i*page:][:2*page]
		if err := unix.Mprotect(mem, rw); err != nil {
			return err
		}
		t := mono()
		if err := unix.Mprotect(mem, rx); err != nil {
			return err
		}
		say(what, mem, t)
		switch what {
		case "flip":
			for range 1000 {
				if err := errors.Join(unix.Mprotect(mem, rw), unix.Mprotect(mem, rx)); err != nil {
					return err
				}
			}
		case "named":
			name := append([]byte("my jit"), 0)
			_ = unix.Prctl(unix.PR_SET_VMA, unix.PR_SET_VMA_ANON_NAME, uintptr(unsafe.Pointer(unsafe.SliceData(mem))),
				uintptr(len(mem)), uintptr(unsafe.Pointer(unsafe.SliceData(name))))
		case "moved":
			to := uintptr(unsafe.Pointer(unsafe.SliceData(area[90*page:])))
			const fixed = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED
			if _, _, e := unix.Syscall6(unix.SYS_MREMAP, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), 2*page, 2*page, fixed, to, 0); e != 0 {
				return e
			}
			say("there", area[90*page:][:2*page], t)
			// Nothing else shall come to the old place.
			const place = private | unix.MAP_FIXED
			if _, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(mem)), 2*page, unix.PROT_NONE, place); err != nil {
				return err
			}
		}
	}
	fd, err := unix.MemfdCreate("my memfd", 0)
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, 2*page); err != nil {
		return err
	}
	t = mono()
	mem, err := unix.Mmap(fd, 0, 2*page, rx, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	say("memfd", mem, t)
	return nil
}

// burst is how many changes each thread of a restless process makes for a byte.
const burst = 1000

// helpChange maps and unmaps pages of a library, by two threads, so many times for each
// byte that it reads: a reader that gets no processor for long has not to go through all
// that a process can do meanwhile.
func helpChange(args []string) error {
	const pages = 64
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	area, err := unix.Mmap(-1, 0, 2*pages*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	var may atomic.Int64
	for thread := range uint64(2) {
		go func() {
			rnd := rand.New(rand.NewPCG(thread, 1))
			for n := int64(0); ; n++ {
				for n >= may.Load() {
					time.Sleep(time.Millisecond)
				}
				at := thread*pages + uint64(rnd.IntN(pages-4))
				to, size := unsafe.Pointer(&area[at*page]), uintptr(page*(1+rnd.IntN(4)))
				var err error
				switch rnd.IntN(4) {
				case 0:
					err = unix.MunmapPtr(to, size)
				case 1:
					_, err = unix.MmapPtr(-1, 0, to, size, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
				default:
					_, err = unix.MmapPtr(int(f.Fd()), int64(page*rnd.IntN(20)), to, size, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED)
				}
				if err != nil {
					fmt.Println("error", err)
					os.Exit(1)
				}
				for t := mono(); mono()-t < restlessPause; {
				}
			}
		}()
	}
	fmt.Println("ready")
	for in := bufio.NewReader(os.Stdin); ; may.Add(burst) {
		if _, err := in.ReadByte(); err != nil {
			return err
		}
	}
}

// helpExec executes a program by a thread that is not the first.
func helpExec(args []string) error {
	os.Unsetenv(helperMode)
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // which may be the first thread: another one is not
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		fmt.Println("tid", unix.Gettid())
		failed <- syscall.Exec(path, args, os.Environ())
	}()
	return <-failed
}

// helpThreads starts threads that end, and some that stay.
func helpThreads([]string) error {
	for i := range 20 {
		t := mono()
		done := make(chan bool)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			fmt.Println("thread", unix.Gettid(), t, mono())
			done <- true
			if i%2 == 0 {
				select {}
			}
		}()
		<-done
	}
	return nil
}

// helpChroot changes the root and executes a program in it.
func helpChroot(args []string) error {
	if err := unix.Chroot(args[0]); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return syscall.Exec("/bin/x", []string{"x"}, []string{helperMode + "=idle"})
}

// helpWithin runs a program in a mount namespace with another root, as in a container,
// and stays when that has ended.
func helpWithin(args []string) error {
	if unix.Gettid() != os.Getpid() { // /proc/PID/root is that of the first thread
		return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	if err := pivot(args[0]); err != nil {
		return err
	}
	if err := os.Mkdir("/dev", 0o755); err != nil {
		return err
	}
	null, err := os.Create("/dev/null") // for the program's output of errors
	if err != nil {
		return err
	}
	defer null.Close()
	cmd := exec.Command("/bin/x", args[1])
	cmd.Env = []string{helperMode + "=mapped"}
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	if err := cmd.Run(); err != nil {
		return err
	}
	fmt.Println("gone")
	for {
		_ = unix.Pause()
	}
}

// helpMapped maps a page of a file as code.
func helpMapped(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err == nil {
		fmt.Println("mapped", os.Getpid(), uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	}
	return err
}

// helpPivot executes a program in a mount namespace with another root, as in a
// container.
func helpPivot(args []string) error {
	if err := pivot(args[0]); err != nil {
		return err
	}
	return syscall.Exec("/bin/x", []string{"x"}, []string{helperMode + "=idle"})
}

// pivot makes a directory the root of the thread, in a mount namespace of its own.
func pivot(root string) error {
	runtime.LockOSThread()
	old := root + "/old"
	if err := os.Mkdir(old, 0o755); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS) },
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Mount(root, root, "", unix.MS_BIND, "") },
		func() error { return unix.PivotRoot(root, old) },
		func() error { return os.Chdir("/") },
		func() error { return unix.Unmount("/old", unix.MNT_DETACH) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// helpOpen opens a side band without the right to.
func helpOpen([]string) error {
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	b, err := Open(space.New(), Options{})
	if err == nil {
		return b.Close()
	}
	fmt.Printf("denied %v %q\n", errors.Is(err, perf.ErrDenied), err)
	return nil
}

// helpMemory opens a side band without the right to as much memory as it likes.
func helpMemory([]string) error {
	runtime.LockOSThread()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	data[0].Permitted &^= 1 << unix.CAP_IPC_LOCK
	if err := unix.Capset(&head, &data[0]); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}); err != nil {
		return err
	}
	b, err := Open(space.New(), Options{RingSize: 64 << 20})
	if err != nil {
		fmt.Printf("refused %v %q\n", errors.Is(err, perf.ErrMemory), err)
		return nil
	}
	fmt.Println("size", b.RingSize())
	return b.Close()
}

// helper is a running helper with what it said, by its first word.
type helper struct {
	cmd  *exec.Cmd
	said map[string][]string
	in   io.WriteCloser
	out  *bufio.Scanner
}

// startHelper starts a helper and waits until it is ready, or has ended.
func startHelper(t testing.TB, mode string, args ...string) *helper {
	t.Helper()
	h := &helper{cmd: exec.Command("/proc/self/exe", args...), said: make(map[string][]string)}
	h.cmd.Env = append(os.Environ(), helperMode+"="+mode)
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stop)
	h.out = bufio.NewScanner(out)
	h.listen(t)
	return h
}

// listen takes what the helper says until it is ready.
func (h *helper) listen(t testing.TB) {
	t.Helper()
	for h.out.Scan() && h.out.Text() != "ready" {
		word, rest, _ := strings.Cut(h.out.Text(), " ")
		if word == "error" {
			t.Fatalf("the helper says: %s", rest)
		}
		h.said[word] = append(h.said[word], rest)
	}
}

func (h *helper) stop() {
	h.in.Close()
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

func (h *helper) pid() int { return h.cmd.Process.Pid }

// memory is what say printed.
type memory struct {
	addr, size uint64
	from, to   int64
}

func (h *helper) memory(t testing.TB, what string) memory {
	t.Helper()
	var m memory
	if len(h.said[what]) != 1 {
		t.Fatalf("the helper says %q of %s", h.said[what], what)
	}
	if _, err := fmt.Sscanf(h.said[what][0], "%v %v %v %v", &m.addr, &m.size, &m.from, &m.to); err != nil {
		t.Fatal(err)
	}
	return m
}

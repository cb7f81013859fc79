package sideband

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/space"
)

// init keeps the first thread for helpHeir, which ends it.
func init() {
	if os.Getenv(helperMode) == "heir" {
		runtime.LockOSThread()
	}
}

// helpHeir ends its first thread; another one prints its number and maps a file as code
// whenever it reads a line.
func helpHeir(args []string) error {
	go func() {
		runtime.LockOSThread()
		fmt.Println("thread", unix.Gettid())
		for stat := []byte(nil); !bytes.Contains(stat, []byte(") Z ")); time.Sleep(time.Millisecond) {
			stat, _ = os.ReadFile("/proc/self/stat")
		}
		fmt.Println("ready")
		var line [1]byte
		for {
			if _, err := os.Stdin.Read(line[:]); err == io.EOF {
				os.Exit(0)
			}
			mem, err := mapHeir(args[0])
			if err != nil {
				os.Exit(1)
			}
			say("file", mem, mono())
			fmt.Println("ready")
		}
	}()
	unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	return nil
}

func mapHeir(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read from
	return unix.Mmap(int(f.Fd()), page, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
}

// TestHeir: the threads of a process whose first one had ended before all processes were
// read have what the process maps from then on.
func TestHeir(t *testing.T) {
	h := startHelper(t, "heir", executable(t))
	b, _ := openBand(t, Options{})
	h.checkHeir(t, b)
}

// TestUnknownThread: a thread that is not known is read as one of its process, not as a
// process of its own, of whose changes there would be no records.
func TestUnknownThread(t *testing.T) {
	b, r := openBand(t, Options{})
	h := startHelper(t, "heir", executable(t))
	drain(t, b)
	tid := h.thread(t)
	b.History = newHistory(space.New())
	if err := b.Read(r, tid, 0); err != nil {
		t.Fatal(err)
	}
	if b.History.Spaces.Space(tid) != nil {
		t.Errorf("thread %d is taken for a process", tid)
	}
	h.checkHeir(t, b)
}

func executable(t *testing.T) string {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func (h *helper) thread(t *testing.T) int {
	t.Helper()
	if len(h.said["thread"]) != 1 {
		t.Fatalf("the helper says %q", h.said)
	}
	tid, err := strconv.Atoi(h.said["thread"][0])
	if err != nil {
		t.Fatal(err)
	}
	return tid
}

// checkHeir has the process map a file, and looks that up for its thread.
func (h *helper) checkHeir(t *testing.T, b *Band) {
	t.Helper()
	tid := h.thread(t)
	if pid, late, ok := b.History.Threads.PID(tid, b.Now()); pid != h.pid() || late || !ok {
		t.Fatalf("thread %d is of process %d, %v, %v, want %d", tid, pid, late, ok, h.pid())
	}
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		t.Fatal(err)
	}
	h.listen(t)
	drain(t, b)
	m := h.memory(t, "file")
	p, ok := b.History.Lookup(tid, m.addr, b.Now())
	if !ok || p.Late || p.PID != h.pid() || p.Mapping.Start != m.addr || !p.Mapping.Exact {
		t.Errorf("what the process has mapped is in %+v, %v", p, ok)
	}
	h.in.Close()
	_ = h.cmd.Wait()
	drain(t, b)
	if b.History.Threads.Live(h.pid()) != 0 || b.History.Spaces.Space(h.pid()).At(b.Now()) != nil {
		t.Errorf("process %d has ended, and %d of its threads have not", h.pid(), b.History.Threads.Live(h.pid()))
	}
}

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// holes are what a process can map whose build ID is better not asked for: memory
// whose first page is absent, memory whose page with the note is, a file whose
// header names a place that no file has, and memory that the kernel cannot read.
var holes = []string{"memfd", "memfd-note", "anonymous", "sysv", "tmpfs", "hugetlb", "negative", "negative-tmpfs", "secret"}

const user = 65534

// startHole starts a process of a user without rights that maps a hole.
func startHole(kind string) (*exec.Cmd, error) {
	if kind == "hugetlb" {
		if err := os.WriteFile("/proc/sys/vm/nr_hugepages", []byte("2"), 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll("/disk/user", 0o777); err != nil {
		return nil, err
	}
	if err := os.Chmod("/disk/user", 0o777); err != nil {
		return nil, err
	}
	cmd := exec.Command("/disk/guest", "hole", kind)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		cmd.Wait()
		return nil, fmt.Errorf("%q (%v)", line, err)
	}
	return cmd, nil
}

// helper is this program as another process.
func helper(what string, args []string) error {
	switch {
	case what == "hole" && len(args) == 1:
		if _, err := makeHole(args[0]); err != nil {
			return err
		}
		fmt.Println("ready")
		for {
			time.Sleep(100 * time.Millisecond)
			if args[0] == "secret" {
				mapAgain()
			}
		}
	case what == "ask" && len(args) == 1:
		return ask(args[0])
	case what == "work":
		return work()
	case what == "life" && len(args) == 3:
		return life(args)
	case what == "storm" && len(args) == 1:
		rounds, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		return storm(rounds)
	}
	return fmt.Errorf("what is %q?", what)
}

const size = 2 << 20 // two pages and more, of any size

// makeHole maps a hole, executable, and returns it.
func makeHole(kind string) (mem []byte, err error) {
	const prot = unix.PROT_READ | unix.PROT_EXEC
	var fd int
	var content []byte
	switch kind {
	case "memfd":
		fd, err = unix.MemfdCreate("hole", 0)
	case "memfd-note":
		fd, err = unix.MemfdCreate("hole", 0)
		content = header(64, 1, 0x10000)
	case "anonymous":
		return unix.Mmap(-1, 0, size, prot, unix.MAP_SHARED|unix.MAP_ANON)
	case "sysv":
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o700)
		if err != nil {
			return nil, err
		}
		if mem, err = unix.SysvShmAttach(id, 0, 0); err != nil {
			return nil, err
		}
		return mem, unix.Mprotect(mem, prot)
	case "secret":
		return mapSecret()
	case "tmpfs":
		fd, err = unix.Open("/dev/shm", unix.O_TMPFILE|unix.O_RDWR, 0o700)
	case "hugetlb":
		fd, err = unix.MemfdCreate("hole", unix.MFD_HUGETLB)
	case "negative", "negative-tmpfs":
		dir := map[string]string{"negative": "/disk/user", "negative-tmpfs": "/dev/shm"}[kind]
		fd, err = unix.Open(filepath.Join(dir, kind), unix.O_CREAT|unix.O_RDWR, 0o755)
		content = header(1<<63, 1<<16-1, 0)
	default:
		err = fmt.Errorf("unknown")
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, err
	}
	if _, err := unix.Pwrite(fd, content, 0); err != nil && len(content) > 0 {
		return nil, err
	}
	return unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
}

// secret is the descriptor of memory that the kernel cannot read.
var secret int

// mapSecret maps such memory, and gives it a page.
func mapSecret() (mem []byte, err error) {
	if secret, err = unix.MemfdSecret(0); err != nil {
		return nil, err
	}
	if err := unix.Ftruncate(secret, size); err != nil {
		return nil, err
	}
	if mem, err = unix.Mmap(secret, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		mem[0] = 1
	}
	return mem, err
}

// mapAgain maps it once more: perf has a record of each mapping, with a build ID if
// one was asked for.
func mapAgain() {
	if mem, err := unix.Mmap(secret, 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err == nil {
		_ = unix.Munmap(mem)
	}
}

// header is an ELF header of a shared library (man 5 elf), with a program header
// of notes at 64 that is used if phoff says so.
func header(phoff uint64, phnum uint16, notes uint64) []byte {
	b := make([]byte, 64+56)
	copy(b, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(b[16:], 3)  // ET_DYN
	binary.LittleEndian.PutUint16(b[18:], 62) // EM_X86_64
	binary.LittleEndian.PutUint64(b[32:], phoff)
	binary.LittleEndian.PutUint16(b[54:], 56)
	binary.LittleEndian.PutUint16(b[56:], phnum)
	binary.LittleEndian.PutUint32(b[64:], 4) // PT_NOTE
	binary.LittleEndian.PutUint64(b[72:], notes)
	binary.LittleEndian.PutUint64(b[96:], 4096) // p_filesz
	return b
}

// ask maps a hole and asks the kernel for its build ID (struct procmap_query of
// include/uapi/linux/fs.h).
func ask(kind string) error {
	mem, err := makeHole(kind)
	if err != nil {
		return err
	}
	fd, err := unix.Open("/proc/self/maps", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	id := make([]byte, 20)
	q := [13]uint64{0: 104, 2: uint64(uintptr(unsafe.Pointer(&mem[0]))), 10: 20 << 32, 12: uint64(uintptr(unsafe.Pointer(&id[0])))}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), 0xc0686611, uintptr(unsafe.Pointer(&q)))
	fmt.Printf("answered: %v\n", errno)
	return nil
}

// work waits for locks, so that there are events to trace.
func work() error {
	var word uint32
	for range 50 {
		t := unix.NsecToTimespec(int64(10 * time.Millisecond))
		unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), 128, 0, uintptr(unsafe.Pointer(&t)), 0, 0)
	}
	return nil
}

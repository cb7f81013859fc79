//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownMemory returns a source that copies stacks, and the memory of this process.
func ownMemory(t *testing.T) (s *Source, memory uint64) {
	t.Helper()
	needBPF(t)
	s, err := Open(Options{Copy: 512, Filtered: true, MinWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // nothing depends on it
	if err := errors.Join(s.Add(os.Getpid(), Many), s.Start()); err != nil {
		t.Fatal(err)
	}
	word := uint32(2)
	futexCall(&word, private, 2, 2*time.Millisecond)
	var w Wait
	if err := s.Next(&w, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	return s, w.Memory
}

// int80 makes a system call of 32 bits.
func int80(t *testing.T, nr, b, c, d, s uint32) {
	t.Helper()
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	code = append(code, 0x53, 0x56, 0x41, 0x50, 0x41, 0x51) // push rbx, rsi, r8, r9
	for _, r := range []struct {
		mov   byte // to eax, ebx, ecx, edx, esi
		value uint32
	}{{0xb8, nr}, {0xbb, b}, {0xb9, c}, {0xba, d}, {0xbe, s}} {
		code = append(code, r.mov, byte(r.value), byte(r.value>>8), byte(r.value>>16), byte(r.value>>24))
	}
	code = append(code, 0xcd, 0x80, 0x41, 0x59, 0x41, 0x58, 0x5e, 0x5b, 0xc3) // int 0x80, pops, ret
	copy(page, code)
	entry := &page[0]
	value := &entry // what a Go function's value points to
	(*(*func())(unsafe.Pointer(&value)))()
	runtime.KeepAlive(page)
}

// TestChanges: each call that can put code in the place of other code is counted for its memory, and
// calls that cannot are not.
func TestChanges(t *testing.T) {
	s, memory := ownMemory(t)
	page := uintptr(os.Getpagesize())
	const anon = unix.MAP_PRIVATE | unix.MAP_ANON
	at, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, 16*page, unix.PROT_READ, anon, ^uintptr(0), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	place := func(n uintptr) uintptr { return at + n*page }
	call := func(nr uintptr, a ...uintptr) func() {
		a = append(a, make([]uintptr, 6-len(a))...)
		return func() { unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]) } //nolint:errcheck // that it was made counts
	}
	const read, exec = unix.PROT_READ, unix.PROT_READ | unix.PROT_EXEC
	const remapFilePages, shmExec, readImpliesExec = 216, 0o100000, 0x0400000
	tests := []struct {
		name string
		call func()
		want bool
	}{
		{"mmap", call(unix.SYS_MMAP, 0, page, exec, anon, ^uintptr(0), 0), true},
		{"mmap of data", call(unix.SYS_MMAP, 0, page, read, anon, ^uintptr(0), 0), false},
		{"mprotect", call(unix.SYS_MPROTECT, place(0), page, exec), true},
		{"mprotect to data", call(unix.SYS_MPROTECT, place(0), page, read), false},
		{"pkey_mprotect", call(unix.SYS_PKEY_MPROTECT, place(0), page, exec, ^uintptr(0)), true},
		{"mremap to a place", call(unix.SYS_MREMAP, place(2), page, page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, place(1)), true},
		{"mremap that leaves", call(unix.SYS_MREMAP, place(3), page, page, unix.MREMAP_MAYMOVE|unix.MREMAP_DONTUNMAP, 0), true},
		{"mremap that grows", call(unix.SYS_MREMAP, place(4), page, 2*page, 0), true},
		{"mremap that shrinks", call(unix.SYS_MREMAP, place(6), 2*page, page, unix.MREMAP_MAYMOVE), false},
		{"munmap", call(unix.SYS_MUNMAP, place(6), page), false},
		{"shmat", call(unix.SYS_SHMAT, ^uintptr(0), 0, shmExec), true},
		{"shmat of data", call(unix.SYS_SHMAT, ^uintptr(0), 0, 0), false},
		{"exec", call(unix.SYS_EXECVE, 0, 0, 0), true},
		{"execveat", call(unix.SYS_EXECVEAT, ^uintptr(0), 0, 0, 0, 0), true},
		{"read implies exec", func() {
			unix.Syscall(unix.SYS_PERSONALITY, readImpliesExec, 0, 0) //nolint:errcheck // else the test fails
			call(unix.SYS_MPROTECT, place(0), page, read)()
			unix.Syscall(unix.SYS_PERSONALITY, 0, 0, 0) //nolint:errcheck // nothing depends on it
		}, true},
	}
	if runtime.GOARCH == "amd64" {
		const arch, fixed32 = 158, 0x20000000
		tests = append(tests, []struct {
			name string
			call func()
			want bool
		}{
			{"remap_file_pages", call(remapFilePages, place(0), page, 0, 0, 0), true},
			{"arch_prctl of the vDSO", call(arch, 0x2003, 1), true}, {"arch_prctl of no vDSO", call(arch, 0x1011, 0), false},
			{"x32", call(0x40000000|unix.SYS_MPROTECT, place(0), page, exec), true},
			{"int 0x80 mprotect", func() { int80(t, 125, fixed32, uint32(page), exec, 0) }, true},
			{"int 0x80 mremap", func() { int80(t, 163, fixed32, uint32(page), uint32(page), 3) }, true},
			{"int 0x80 mmap", func() { int80(t, 90, 0, 0, 0, 0) }, true},
			{"int 0x80 openat", func() { int80(t, 295, 0, 0, 0, 0) }, false},
		}...)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, test := range tests {
		before, err := s.Changes(memory)
		extra := uint64(0)
		if test.call(); err == nil && len(test.name) > 8 && test.name[:8] == "int 0x80" {
			extra = 1 // the page for its code
		}
		after, aerr := s.Changes(memory)
		if err := errors.Join(err, aerr); err != nil || before == Unsettled || after == Unsettled {
			t.Fatalf("%s: %d, %d, %v", test.name, before, after, err)
		}
		if got := after > before+extra; got != test.want {
			t.Errorf("%s: %d, then %d", test.name, before, after)
		}
	}
}

// sharing runs code in a process that shares the memory of this one and is no thread of it, and waits
// until it has ended.
func sharing(t *testing.T, code []byte) {
	t.Helper()
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	copy(page, code)
	end := len(page) - 256 // its stack: the call returns to the code
	binary.NativeEndian.PutUint64(page[end:], uint64(uintptr(unsafe.Pointer(&page[0]))))
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, unix.CLONE_VM|uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&page[end])), 0, 0, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(int(pid), &status, 0, nil); err != nil || status != 0 {
		t.Fatalf("it ended with %#x, %v", status, err)
	}
}

// TestChangesShared: what another process maps in the memory that it shares with this one is a change
// of that.
func TestChangesShared(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("code of amd64")
	}
	s, memory := ownMemory(t)
	exits := []byte{0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05} // mov eax, exit; xor edi, edi; syscall
	maps := []byte{
		0xb8, 9, 0, 0, 0, 0x31, 0xff, 0xbe, 0, 0x10, 0, 0, 0xba, 5, 0, 0, 0, // mov eax, mmap; 0 to edi, 4096 to esi, 5 to edx
		0x41, 0xba, 0x22, 0, 0, 0, 0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, 0x45, 0x31, 0xc9, 0x0f, 0x05, // 0x22 to r10d, -1 to r8, 0 to r9d; syscall
	}
	for name, test := range map[string]struct {
		code []byte
		want uint64
	}{"none": {exits, 0}, "mmap": {append(maps, exits...), 1}} {
		const own = 1 // the page for the code
		before, err := s.Changes(memory)
		sharing(t, test.code)
		after, aerr := s.Changes(memory)
		if err := errors.Join(err, aerr); err != nil || before == Unsettled || after != before+own+test.want {
			t.Errorf("%s: %d, then %d, %v", name, before, after, err)
		}
	}
}

// silentMemory is a page of memory that userfaultfd(2) serves, and nothing answers for it until
// it is closed.
func silentMemory(t *testing.T) (addr uintptr, fd int) {
	t.Helper()
	const uffdioAPI, uffdioRegister, missing = 0xc018aa3f, 0xc020aa00, 1
	mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	f, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno != 0 {
		t.Skipf("userfaultfd is needed: %v", errno)
	}
	api := [3]uint64{0xaa}
	register := [4]uint64{uint64(uintptr(unsafe.Pointer(&mem[0]))), uint64(len(mem)), missing}
	_, _, errno = unix.Syscall(unix.SYS_IOCTL, f, uffdioAPI, uintptr(unsafe.Pointer(&api)))
	if errno == 0 {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, f, uffdioRegister, uintptr(unsafe.Pointer(&register)))
	}
	if errno != 0 {
		t.Fatal(errno)
	}
	return uintptr(unsafe.Pointer(&mem[0])), int(f)
}

// TestChangesUnderWay: while a call that can map code has not returned, the number of changes is not
// settled, and waits that end then have none.
func TestChangesUnderWay(t *testing.T) {
	s, memory := ownMemory(t)
	before, err := s.Changes(memory)
	if err != nil || before == Unsettled {
		t.Fatal(before, err)
	}
	path, fd := silentMemory(t)
	ended := make(chan unix.Errno)
	go func() {
		runtime.LockOSThread()
		_, _, errno := unix.Syscall(unix.SYS_EXECVE, path, 0, 0)
		ended <- errno
	}()
	n := before
	for range 1000 {
		if n, err = s.Changes(memory); err != nil || n == Unsettled {
			break
		}
		time.Sleep(time.Millisecond)
	}
	word := uint32(2)
	futexCall(&word, private, 2, 2*time.Millisecond)
	address := uint64(uintptr(unsafe.Pointer(&word)))
	_ = unix.Close(fd)
	errno := <-ended
	var w Wait
	for w.Addr != address {
		if err := s.Next(&w, time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil || n != Unsettled || w.Changes != Unsettled {
		t.Errorf("before %d, under way %d, of a wait %d: %v, %v", before, n, w.Changes, err, errno)
	}
	if n, err := s.Changes(memory); err != nil || n == Unsettled || n <= before {
		t.Errorf("before %d, at the end %d: %v", before, n, err)
	}
}

// TestChangesExec: a program that a process executes is a change of the memory of the one before, and
// of its own.
func TestChangesExec(t *testing.T) {
	first := make(map[uint64]uint64)
	lookAt(t, Options{Copy: 512}, time.Millisecond, becomes+"1 1 2ms", func(s *Source, _ int) {
		var w Wait
		for {
			if err := s.Next(&w, time.Now()); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if _, ok := first[w.Memory]; !ok {
				first[w.Memory] = w.Changes
			}
		}
		grown, settled := 0, 0
		for memory, was := range first {
			n, err := s.Changes(memory)
			if err != nil {
				t.Fatal(err)
			}
			if n != Unsettled {
				settled++
			}
			if n > was {
				grown++
			}
		}
		if len(first) != 2 || settled != 2 || grown == 0 {
			t.Errorf("waits of %d memories, %d with settled changes, %d of them grown", len(first), settled, grown)
		}
	})
}

package procmap

import (
	"slices"
	"strings"
)

// Kind is what sort of memory a mapping is.
type Kind uint8

const (
	// File is a file that has a name.
	File Kind = iota
	// Deleted is a file whose name is gone: PATH (deleted). A name that really ends
	// so looks the same.
	Deleted
	// Memfd is a file of memfd_create(2): /memfd:NAME (deleted).
	Memfd
	// SharedAnon is shared memory without a name: /dev/zero (deleted).
	SharedAnon
	// SysV is a segment of shmget(2): /SYSVxxxxxxxx (deleted).
	SysV
	// Heap is what brk(2) moves, Stack the stack of the first thread.
	Heap
	Stack
	// VDSO is the code that the kernel gives every process, Vsyscall its
	// ancestor at a fixed address.
	VDSO
	Vsyscall
	// Special is other memory that the kernel gives processes: [vvar],
	// [uprobes], [sigpage], and a [vdso] other than that of this process (Options.VDSO).
	Special
	// AnonNamed is private anonymous memory with a name of prctl(2)
	// PR_SET_VMA_ANON_NAME: [anon:NAME]; AnonShmem the same for shared
	// anonymous memory: [anon_shmem:NAME].
	AnonNamed
	AnonShmem
	// Anonymous is memory without file and name.
	Anonymous
)

var kindNames = [...]string{
	File: "file", Deleted: "deleted", Memfd: "memfd", SharedAnon: "shared-anon", SysV: "sysv", Heap: "heap",
	Stack: "stack", VDSO: "vdso", Vsyscall: "vsyscall", Special: "special", AnonNamed: "anon-named",
	AnonShmem: "anon-shmem", Anonymous: "anonymous",
}

// String returns the word used in all outputs.
func (k Kind) String() string { return kindNames[k] }

// ParseKind reads the word of String.
func ParseKind(word string) (k Kind, ok bool) {
	i := slices.Index(kindNames[:], word)
	return Kind(max(i, 0)), i >= 0
}

// HasFile reports whether the memory is a file's, so that a place in it is an
// offset in that file.
func (k Kind) HasFile() bool { return k <= Memfd }

// IsData reports whether the memory can be a program's variables that are not in
// its file: it has none, and is neither a stack nor the kernel's. The heap can
// begin where the .bss ends, and then both are one mapping.
func (k Kind) IsData() bool { return k == Anonymous || k == AnonNamed || k == Heap }

const deletedSuffix = " (deleted)" // d_path, fs/d_path.c

// Classify returns the kind of a mapping by its name, unescaped, and its device
// and inode: fs/proc/task_mmu.c prints names of files, which begin with a
// slash, or what stands in brackets.
func Classify(name string, dev Dev, inode uint64) Kind {
	if name == "" {
		if inode != 0 {
			return File
		}
		return Anonymous
	}
	if name[0] == '[' && name[len(name)-1] == ']' {
		return classifyBracketed(name)
	}
	path, gone := strings.CutSuffix(name, deletedSuffix)
	if !gone {
		return File
	}
	// The kernel's own file systems have no device, so major 0. A file with
	// such a name on a disk is a file.
	if dev.Major != 0 {
		return Deleted
	}
	switch {
	case strings.HasPrefix(path, "/memfd:"):
		return Memfd
	case path == "/dev/zero", path == "/anon_hugepage":
		return SharedAnon
	case isSysV(path):
		return SysV
	}
	return Deleted
}

func classifyBracketed(name string) Kind {
	switch name {
	case "[heap]":
		return Heap
	case "[stack]":
		return Stack
	case "[vdso]":
		return VDSO
	case "[vsyscall]":
		return Vsyscall
	}
	switch {
	case strings.HasPrefix(name, "[anon:"):
		return AnonNamed
	case strings.HasPrefix(name, "[anon_shmem:"):
		return AnonShmem
	case strings.HasPrefix(name, "[stack:"): // of a thread, kernels before 4.5
		return Stack
	}
	return Special
}

// isSysV reports whether a path is /SYSV%08x of ipc/shm.c.
func isSysV(path string) bool {
	digits, ok := strings.CutPrefix(path, "/SYSV")
	if !ok || len(digits) != 8 {
		return false
	}
	for i := range len(digits) {
		if !isHex(digits[i]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

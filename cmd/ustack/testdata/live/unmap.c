// unmap LIBRARY: maps the code of a library where the heap has grown to, and lets the heap
// shrink, which unmaps the code: brk names no range. Its calls of futex have a frame that
// returns to that code, and say with val3 whether it is there (1) or not (2).
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { size = 1 << 20, inside = 1 << 16, page = 4096, wake_private = 129 };

// call calls futex with a frame for a caller: the kernel follows the frame pointer.
static __attribute__((noinline)) void call(uintptr_t *frame, long tag)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	register long r9 __asm__("r9") = tag;
	long ret;
	__asm__ volatile("mov %%rbp, %%rbx; mov %[f], %%rbp; syscall; mov %%rbx, %%rbp"
		: "=a"(ret) : "a"((long)SYS_futex), "D"(frame), "S"((long)wake_private), "d"(0L), "r"(r10), "r"(r8), "r"(r9), [f] "r"(frame)
		: "rbx", "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = SYS_futex;
	register long x0 __asm__("x0") = (long)frame;
	register long x1 __asm__("x1") = wake_private;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;
	register long x5 __asm__("x5") = tag;
	__asm__ volatile("mov x19, x29; mov x29, %[f]; svc #0; mov x29, x19"
		: "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), [f] "r"(frame) : "x19", "memory");
#endif
}

static int there(char *code)
{
	unsigned char resident;
	return mincore(code, page, &resident) == 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	int fd = open(argv[1], O_RDONLY);
	for (int round = 0; round < 5; round++) {
		char *base = (char *)(((uintptr_t)sbrk(0) + page - 1) & -(uintptr_t)page);
		if (brk(base + size) != 0)
			return perror("brk"), 1;
		char *code = mmap(base + inside, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
		if (code == MAP_FAILED)
			return perror("mmap"), 1;
		uintptr_t frame[2] = {0, (uintptr_t)code + 0x10};
		call(frame, 1);
		if (brk(base) != 0)
			return perror("brk"), 1;
		call(frame, there(code) ? 1 : 2);
	}
	return 0;
}

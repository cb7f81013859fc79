// ring LIBRARY aio|fork: maps the code of a library over the ring of an AIO context, and
// destroys that; or forks a child that does not get the code (MADV_DONTFORK). Its calls of futex
// have a frame that returns to that code, and say with val3 whether it is there (1) or not (2).
// It exits with 77 if the kernel has no AIO for it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { page = 4096, wake_private = 129 };

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

static int fd; // of the library

// map maps the code, at an address unless that is NULL.
static char *map(char *at)
{
	char *code = mmap(at, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);
	if (code == MAP_FAILED)
		perror("mmap"), _exit(1);
	return code;
}

static int in_ring(void)
{
	unsigned long context = 0;
	if (syscall(SYS_io_setup, 1000, &context) != 0)
		return perror("io_setup"), 77;
	char *code = map((char *)context + page);
	uintptr_t frame[2] = {0, (uintptr_t)code + 0x10};
	call(frame, 1);
	if (syscall(SYS_io_destroy, context) != 0)
		return perror("io_destroy"), 1;
	call(frame, there(code) ? 1 : 2);
	return 0;
}

static int in_parent(void)
{
	char *code = map(NULL);
	uintptr_t frame[2] = {0, (uintptr_t)code + 0x10};
	if (madvise(code, page, MADV_DONTFORK) != 0)
		return perror("madvise"), 1;
	call(frame, 1);
	pid_t child = fork();
	if (child == 0) {
		call(frame, there(code) ? 1 : 2);
		_exit(0);
	}
	return child < 0 || waitpid(child, NULL, 0) != child || munmap(code, page) != 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	fd = open(argv[1], O_RDONLY);
	int (*way)(void) = strcmp(argv[2], "aio") == 0 ? in_ring : in_parent;
	for (int round = 0; round < 5; round++) {
		int code = way();
		if (code != 0)
			return code;
	}
	return 0;
}

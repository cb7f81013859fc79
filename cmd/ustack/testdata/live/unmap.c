// unmap LIBRARY: maps the code of a library again and again, and has it unmapped in ways that
// name another range, or none, or by a call of which a later one seems to be the failure.
// Its calls of futex have a frame that returns to that code, and say with val3 whether it is
// there (1) or not (2).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call.h"

enum { size = 1 << 20, inside = 1 << 16, page = 4096 };

static char *place(char *at, int fd)
{
	char *code = mmap(at, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
	if (code == MAP_FAILED)
		perror("mmap"), _exit(1);
	return code;
}

// gone calls with a frame in the code, has it unmapped, and calls again.
static void gone(char *code, void (*unmap)(char *code))
{
	uintptr_t frame[2] = {0, (uintptr_t)code + 0x10};
	call(frame, 1);
	unmap(code);
	call(frame, there(code) ? 1 : 2);
}

// shrink lets the heap shrink, in which the code is.
static void shrink(char *code)
{
	if (brk(code - inside) != 0)
		perror("brk"), _exit(1);
}

// refused_size is the size of a munmap that a filter refuses: its return is recorded.
enum { refused_size = 7 * page };

static void refuse(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused_size, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof code / sizeof *code, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		perror("seccomp"), _exit(1);
}

static void unmap_refused(char *code)
{
	munmap(code, page);
	munmap(code, refused_size);
}

// huge maps a huge page over the code, by a length of less, which fails if there are no huge
// pages: the code has gone all the same.
static void huge(char *code)
{
	const uintptr_t unit = 2 << 20;
	mmap((char *)((uintptr_t)code & -unit), page, PROT_READ, MAP_FIXED | MAP_HUGETLB | MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
}

// crowd are processes that share this one's memory, of which the last one unmaps the code
// when it is asked to.
enum { members = 70 };
static int wanted[2], done[2];
static char *crowd_code;

static int member(void *last)
{
	char c;
	while (last != NULL && read(wanted[0], &c, 1) == 1) {
		munmap(crowd_code, page);
		write(done[1], &c, 1);
	}
	for (;;)
		pause();
}

static void crowd(char *code)
{
	char c = 0;
	crowd_code = code;
	if (write(wanted[1], &c, 1) != 1 || read(done[0], &c, 1) != 1)
		perror("crowd"), _exit(1);
}

// crowded has processes share this one's memory, one of them unmap its code, and end.
static void crowded(char *at, int fd)
{
	enum { stack = 1 << 14 };
	static char stacks[members][stack] __attribute__((aligned(16)));
	pid_t pids[members];
	if (pipe(wanted) != 0 || pipe(done) != 0)
		perror("pipe"), _exit(1);
	for (int i = 0; i < members; i++)
		if ((pids[i] = clone(member, stacks[i] + stack, CLONE_VM | SIGCHLD, i == members - 1 ? stacks : NULL)) < 0)
			perror("clone"), _exit(1);
	gone(place(at, fd), crowd);
	for (int i = 0; i < members; i++)
		if (kill(pids[i], SIGKILL) != 0 || waitpid(pids[i], NULL, 0) != pids[i])
			perror("waitpid"), _exit(1);
	uintptr_t frame[2] = {0, (uintptr_t)place(at, fd) + 0x10};
	call(frame, 1);
}

// heap_at fills what sets where the heap is.
static void heap_at(struct prctl_mm_map *to, char *heap)
{
	unsigned long field[52] = {0};
	char text[2048] = "", *at;
	FILE *f = fopen("/proc/self/stat", "r");
	if (f == NULL || fread(text, 1, sizeof text - 1, f) == 0 || (at = strrchr(text, ')')) == NULL)
		perror("stat"), _exit(1);
	fclose(f);
	at += 3; // the third field is a letter
	for (int i = 4; i <= 51; i++)
		field[i] = strtoul(at + 1, &at, 10);
	*to = (struct prctl_mm_map){.start_code = field[26], .end_code = field[27], .start_stack = field[28], .start_data = field[45], .end_data = field[46],
		.arg_start = field[48], .arg_end = field[49], .env_start = field[50], .env_end = field[51],
		.start_brk = (uintptr_t)heap, .brk = (uintptr_t)heap + size, .exe_fd = -1};
}

// moved_heap moves the heap to where the code is, and lets it shrink. The option is an int, of
// which the kernel ignores the upper half.
static void moved_heap(char *code)
{
	char *heap = (char *)((uintptr_t)code & -(uintptr_t)size);
	struct prctl_mm_map to;
	heap_at(&to, heap);
	if (syscall(SYS_prctl, PR_SET_MM | 1L << 32, PR_SET_MM_MAP, &to, sizeof to, 0) == 0)
		syscall(SYS_brk, heap + page);
}

#if defined(__x86_64__)
static long call32(long nr, long a, long b, long c, long d)
{
	long ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(0L) : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

// heap32 moves the heap to where the code is, with 32-bit calls: to below the code, in the end.
static void heap32(char *code)
{
	enum { brk32 = 45, prctl32 = 172 };
	char *heap = (char *)((uintptr_t)code & -(uintptr_t)size);
	struct prctl_mm_map *to = mmap((void *)0x20000000, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (to == MAP_FAILED)
		perror("mmap"), _exit(1);
	heap_at(to, heap);
	if (call32(prctl32, PR_SET_MM, PR_SET_MM_MAP, (long)to, sizeof *to) != 0)
		return; // the kernel cannot do either
	if ((uintptr_t)heap >> 32 == 0)
		call32(brk32, (long)heap + page, 0, 0, 0);
	else
		syscall(SYS_brk, heap + page);
}
#endif

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	int fd = open(argv[1], O_RDONLY);
	for (int round = 0; round < 5; round++) {
		char *base = (char *)(((uintptr_t)sbrk(0) + page - 1) & -(uintptr_t)page);
		if (brk(base + size) != 0)
			return perror("brk"), 1;
		gone(place(base + inside, fd), shrink);
	}
	gone(place((char *)0x600000000000 + size, fd), huge);
	refuse();
	gone(place((char *)0x610000000000, fd), unmap_refused);
	gone(place((char *)0x640000000000 + inside, fd), moved_heap);
	crowded((char *)0x630000000000, fd);
#if defined(__x86_64__)
	gone(place((char *)0x40000000 + inside, fd), heap32);
	gone(place((char *)0x620000000000 + inside, fd), heap32);
#endif
	return 0;
}

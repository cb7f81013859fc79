// ring LIBRARY aio|fork|slow: maps the code of a library over the ring of an AIO context, and
// destroys that; or forks a child that does not get the code (MADV_DONTFORK), slowly for those
// who ask what it has mapped. Its calls of futex
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

#include "call.h"

enum { page = 4096 };

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

// in_slow_parent is in_parent with time between the steps. The advice is an int, of which the
// kernel ignores the upper half.
static int in_slow_parent(void)
{
	enum { calls = 3, pause = 50 * 1000 };
	char *code = map(NULL);
	uintptr_t frame[2] = {0, (uintptr_t)code + 0x10};
	for (int i = 0; i < calls; i++) {
		usleep(pause);
		call(frame, 1);
	}
	if (syscall(SYS_madvise, code, page, MADV_DONTFORK | 1L << 32) != 0)
		return perror("madvise"), 1;
	usleep(pause);
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < calls; i++) {
			call(frame, there(code) ? 1 : 2);
			usleep(pause);
		}
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
	int rounds = 5;
	if (strcmp(argv[2], "slow") == 0)
		way = in_slow_parent, rounds = 2;
	for (int round = 0; round < rounds; round++) {
		int code = way();
		if (code != 0)
			return code;
	}
	return 0;
}

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

/* A workload of the live tests: code that other code takes the place of, in ways
 * for which perf has no records. Its arguments are two libraries and a way. Calls
 * of futex with value 1 come from the first, 2 from the second, 3 from where the
 * second was: it prints what is there then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int word;
static volatile int done;
static const char *first, *second;
static char *code[2];
static size_t size[2];
static long at[2];

typedef long (*runner)(long (*)(long), long);

static long wake(long value)
{
	return syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, value, 0, 0, 0);
}

static void find(int i, const char *name)
{
	char line[4096], perms[5];
	unsigned long start, end, offset;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), maps)) {
		sscanf(line, "%lx-%lx %4s %lx", &start, &end, perms, &offset);
		if (perms[2] == 'x' && strstr(line, name)) {
			code[i] = (char *)start;
			size[i] = end - start;
			at[i] = offset;
		}
	}
	fclose(maps);
}

static int replace(void *unused)
{
	int fd = open(first, O_RDONLY);
	mmap(code[1], size[0], PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, at[0]);
	done = 1;
	_exit(0);
}

static void *copy(void)
{
	char *mem = mmap(0, size[0], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(mem, code[0], size[0]);
	mprotect(mem, size[0], PROT_READ | PROT_EXEC);
	return mem;
}

int main(int argc, char **argv)
{
	const char *way = argv[3];
	first = argv[1];
	second = argv[2];
	runner run[3];
	void *lib = dlopen(second, RTLD_NOW);
	run[0] = (runner)dlsym(dlopen(first, RTLD_NOW), "remap_run");
	run[1] = (runner)dlsym(lib, "remap_run");
	find(0, first);
	find(1, second);
	run[2] = (runner)((char *)run[0] - code[0] + code[1]);
	for (int i = 0; i < 5; i++) {
		run[0](wake, 1);
		run[1](wake, 2);
	}
	const char *there = "first";
	if (!strcmp(way, "gone")) {
		dlclose(lib);
		way = "move";
	}
	if (!strcmp(way, "move")) {
		mremap(code[0], size[0], size[0], MREMAP_MAYMOVE | MREMAP_FIXED, code[1]);
	} else if (!strcmp(way, "vm")) {
		char *stack = malloc(1 << 16);
		clone(replace, stack + (1 << 16), CLONE_VM | SIGCHLD, 0);
		while (!done)
			usleep(100);
		wait(0);
	} else {
		mremap(copy(), size[0], size[0], MREMAP_MAYMOVE | MREMAP_FIXED, code[1]);
		there = "memory";
	}
	for (int i = 0; i < 5; i++)
		run[2](wake, 3);
	fprintf(stderr, "%s\n", there);
	_exit(0); /* the first library has lost its code */
}

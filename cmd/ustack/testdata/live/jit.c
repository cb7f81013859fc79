// jit MODE makes two functions while it runs, each of which calls back a function
// that makes a system call, 20 times. It tells perf of them, as MODE has it:
//
//	map      as one does, the second function when the first one has run
//	none     not at all
//	old      in a file that is older than the process
//	link     in a file to which its map is a symbolic link
//	foreign  in a file of another user's
//	fifo     in something that is no file
//	small    with a size that does not reach to the call
//	many     as one does, and makes other code in the same places, 300 times, with names
//		 of all kinds
//	removed  as one does, and then maps other memory in the place of both, with the same
//		 code, and does not write it to the map
//	exec     by the map of the program that it was before: it executes itself
//
// It writes the name and the address of each function, and the name of the map.
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
static const unsigned char code[] = {
	0x55,		   // push %rbp
	0x48, 0x89, 0xe5,  // mov  %rsp, %rbp
	0xff, 0xd7,	   // call *%rdi
	0x5d,		   // pop  %rbp
	0xc3,		   // ret
};
#define CALL 6
#elif defined(__aarch64__)
static const uint32_t code[] = {
	0xa9bf7bfd,  // stp x29, x30, [sp, #-16]!
	0x910003fd,  // mov x29, sp
	0xd63f0000,  // blr x0
	0xa8c17bfd,  // ldp x29, x30, [sp], #16
	0xd65f03c0,  // ret
};
#define CALL 12
#endif

static char map[64], target[64];
static int word = 1, calls = 20;

__attribute__((noinline)) void called(void)
{
	for (int i = 0; i < calls; i++)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &(struct timespec){ .tv_nsec = 1000 }, NULL, 0);
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
}

static void tell(const char *mode, const char *name, void *at, size_t size)
{
	FILE *f;

	if (!strcmp(mode, "none"))
		return;
	if (!strcmp(mode, "fifo")) {
		mkfifo(map, 0600);
		return;
	}
	if (!strcmp(mode, "link") && access(map, F_OK))
		if (symlink(target, map))
			exit(1);
	f = fopen(map, "a");
	if (!f)
		exit(1);
	fprintf(f, "%lx %zx %s\n", (long)at, !strcmp(mode, "small") ? CALL - 1 : size, name);
	fclose(f);
	if (!strcmp(mode, "old"))
		utimensat(AT_FDCWD, map, (struct timespec[2]){ { .tv_sec = 1000000 }, { .tv_sec = 1000000 } }, 0);
	if (!strcmp(mode, "foreign") && chown(map, 12345, 12345))
		exit(1);
}

// many has the names of code that goes change while it is called.
static void many(char *mem)
{
	static const char *const kinds[] = {
		"", " code=x", " : path=/bin/sh", "\033[31m", "\\012", ";", "(unresolved: late)", "\377", "+0x1", "@2",
	};
	char name[80];

	calls = 2;
	for (int i = 0; i < 300; i++) {
		char *at = mem + 64 + 64 * (i * 7 % 50);

		snprintf(name, sizeof(name), "made %d%s", i, kinds[i % 10]);
		memcpy(at, code, sizeof(code));
		__builtin___clear_cache(at, at + sizeof(code));
		tell("map", name, at, sizeof(code));
		((void (*)(void (*)(void)))at)(called);
	}
	nap();
}

// removed has other memory with the same code in a place, and calls that.
static void removed(char *mem)
{
	for (int i = 0; i < 3; i++)
		nap();	// what was called before is known
	munmap(mem, 8192);
	if (mmap(mem, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != mem)
		exit(1);
	for (char *at = mem; at < mem + 8192; at += 4096) {
		memcpy(at, code, sizeof(code));
		__builtin___clear_cache(at, at + sizeof(code));
		((void (*)(void (*)(void)))at)(called);
	}
	nap();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "map";
	char *mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return 1;
	memcpy(mem, code, sizeof(code));
	memcpy(mem + 4096, code, sizeof(code));
	__builtin___clear_cache(mem, mem + 8192);
	snprintf(map, sizeof(map), "/tmp/perf-%d.map", getpid());
	snprintf(target, sizeof(target), "/tmp/perf-%d.target", getpid());
	nap();	// the map is to be younger than the process, by any clock
	if (!strcmp(mode, "exec")) {
		// What is told here is not true of the next program.
		for (long at = 0x1000; at < 1L << 47; at = at * 2 + 0x1000)
			tell(mode, "of the program before", (void *)at, at);
		execl(argv[0], argv[0], "none", NULL);
		return 1;
	}
	tell(mode, "LazyCompile:*first /a b.js:1", mem, sizeof(code));
	((void (*)(void (*)(void)))mem)(called);
	nap();
	if (!strcmp(mode, "many"))
		many(mem);
	tell(mode, "second", mem + 4096, sizeof(code));
	((void (*)(void (*)(void)))(mem + 4096))(called);
	nap();
	if (!strcmp(mode, "removed"))
		removed(mem);
	printf("first %p\nsecond %p\nmap %s\n", mem, mem + 4096, map);
	return 0;
}

/*
 * A workload for the live tests: futex calls at the ends of chains of functions
 * whose names the test knows. The system call is made inline, so that the
 * innermost frame is the function that makes it.
 *
 *	work MODE [ARGS]
 *
 * Each mode ends by itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

extern char **environ;
static int word;
static volatile int sink;

/* futex waits for a millisecond, or wakes. */
static inline __attribute__((always_inline)) long futex(int *uaddr, int op, int val, const struct timespec *t)
{
#if defined(__x86_64__)
	long ret;
	register long r10 __asm__("r10") = (long)t;
	register long r8 __asm__("r8") = 0;
	register long r9 __asm__("r9") = 0;
	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"((long)SYS_futex), "D"(uaddr), "S"((long)op), "d"((long)val), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_futex;
	register long x0 __asm__("x0") = (long)uaddr;
	register long x1 __asm__("x1") = op;
	register long x2 __asm__("x2") = val;
	register long x3 __asm__("x3") = (long)t;
	register long x4 __asm__("x4") = 0;
	register long x5 __asm__("x5") = 0;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#endif
}

KEEP void wait_inner(void)
{
	struct timespec t = { 0, 1000000 };

	futex(&word, 0x80, 0, &t);
	sink++;
}

KEEP void wake_inner(void)
{
	futex(&word, 0x81, 1, NULL);
	sink++;
}

KEEP void wake_outer(void)
{
	wake_inner();
	sink++;
}

KEEP void wait_middle(void)
{
	wait_inner();
	sink++;
}

KEEP void wait_outer(void)
{
	wait_middle();
	sink++;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

KEEP void hold_lock(void)
{
	pthread_mutex_lock(&lock);
	wait_outer();
	pthread_mutex_unlock(&lock);
	sink++;
}

KEEP static void *contender(void *arg)
{
	for (int i = 0; i < 20; i++)
		hold_lock();
	return arg;
}

KEEP static int herd(void)
{
	pthread_t th[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&th[i], NULL, contender, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	return 0;
}

/* storm makes processes that live about 2 ms each. */
KEEP static int storm(char *self, int n)
{
	char *argv[] = { self, "once", NULL };

	for (int i = 0; i < n; i++) {
		pid_t pid = i % 2 ? fork() : vfork();

		if (pid == 0) {
			execve(self, argv, environ);
			_exit(127);
		}
		if (i % 4 == 3)
			while (waitpid(-1, NULL, 0) > 0)
				;
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	return 0;
}

/* forks makes processes that never execute a program. */
KEEP static int forks(int n)
{
	for (int i = 0; i < n; i++) {
		if (fork() == 0) {
			wait_outer();
			_exit(0);
		}
		waitpid(-1, NULL, 0);
	}
	return 0;
}

/* plugins loads libraries one after the other, which the kernel likes to put
 * at the same address. */
KEEP static int plugins(int n, char **names)
{
	for (int i = 0; i < n; i++) {
		void *h = dlopen(names[i], RTLD_NOW);
		void (*run)(void (*)(void));

		if (!h) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		*(void **)&run = dlsym(h, "plugin_run");
		run(wait_outer);
		dlclose(h);
	}
	return 0;
}

/* jit_code calls the function that it is given, with a frame of its own. */
#if defined(__x86_64__)
static const unsigned char jit_code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
#elif defined(__aarch64__)
static const unsigned char jit_code[] = { 0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00, 0x3f, 0xd6,
					  0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6 };
#endif

KEEP static int jit(void)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*run)(void (*)(void));

	memcpy(p, jit_code, sizeof(jit_code));
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache(p, p + sizeof(jit_code));
	*(void **)&run = p;
	run(wait_outer);
	return 0;
}

/* moved calls code of a file whose mapping was moved: nobody tells of that. */
KEEP static int moved(char *name)
{
	int fd = open(name, O_RDONLY);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	char *q = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*run)(void (*)(void));

	q = mremap(p, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	if (q == MAP_FAILED)
		return 1;
	*(void **)&run = q;
	run(wait_outer);
	usleep(300000); /* for the one who asks */
	return 0;
}

static double seconds;

KEEP static void *hammering(void *arg)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int i = 0; i < 100; i++)
			wake_outer();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
	return arg;
}

/* hammer wakes nobody, as often as it can, once its input says so. */
KEEP static int hammer(int threads)
{
	pthread_t th[64];
	char c;

	if (read(0, &c, 1) < 0)
		return 1;
	for (int i = 0; i < threads && i < 64; i++)
		pthread_create(&th[i], NULL, hammering, NULL);
	for (int i = 0; i < threads && i < 64; i++)
		pthread_join(th[i], NULL);
	return 0;
}

// Waits twice with a return address that is none at the end of the stack. The
// second time, much later, there is memory.
static KEEP int ghost(void)
{
	char *there = (char *)0x123450000000;
	void *frame[2] = {NULL, there + 0x10};
	void *volatile *mine = __builtin_frame_address(0);
	void *saved = mine[0];

	mine[0] = frame;
	wait_outer();
	usleep(1200 * 1000);
	if (mmap(there, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != there)
		return 1;
	wait_outer();
	mine[0] = saved;
	usleep(1000 * 1000); // to be asked
	return 0;
}

// Maps code and unmaps it again, n times, without haste.
static int mapper(const char *file, int n)
{
	int fd = open(file, O_RDONLY);

	for (int i = 0; i < n; i++) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		if (p == MAP_FAILED)
			return 1;
		munmap(p, 4096);
		usleep(100);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "once")) {
		wait_outer();
		return 0;
	}
	if (!strcmp(mode, "unlink")) {
		unlink(argv[0]);
		wait_outer();
		return 0;
	}
	if (!strcmp(mode, "herd"))
		return herd();
	if (!strcmp(mode, "herds")) {
		for (int i = 0; i < atoi(argv[2]); i++)
			herd();
		return 0;
	}
	if (!strcmp(mode, "linger")) { // until its input ends
		char c;

		herd();
		while (read(0, &c, 1) > 0)
			;
		return 0;
	}
	if (!strcmp(mode, "storm"))
		return storm(argv[0], atoi(argv[2]));
	if (!strcmp(mode, "forks"))
		return forks(atoi(argv[2]));
	if (!strcmp(mode, "plugins"))
		return plugins(argc - 2, argv + 2);
	if (!strcmp(mode, "jit"))
		return jit();
	if (!strcmp(mode, "jitfile")) {
		int fd = open(argv[2], O_CREAT | O_WRONLY | O_TRUNC, 0600);
		static char page[4096];

		memcpy(page, jit_code, sizeof(jit_code));
		return fd < 0 || write(fd, page, sizeof(page)) != sizeof(page);
	}
	if (!strcmp(mode, "moved"))
		return moved(argv[2]);
	if (!strcmp(mode, "sleeper")) {
		for (int i = 0; i < 1000 * atoi(argv[2]); i++)
			wait_outer();
		return 0;
	}
	if (!strcmp(mode, "hiccups")) {
		for (int i = 0; i < atoi(argv[2]); i++) {
			struct timespec t = { 0, 200000000 };

			for (int k = 0; k < 100; k++)
				wait_outer();
			futex(&word, 0x80, 0, &t);
		}
		for (int k = 0; k < 300; k++)
			wait_outer();
		return 0;
	}
	if (!strcmp(mode, "burst")) { // on one CPU: each has a buffer of its own
		cpu_set_t here;

		CPU_ZERO(&here);
		CPU_SET(sched_getcpu(), &here);
		sched_setaffinity(0, sizeof(here), &here);
		for (int i = 0; i < atoi(argv[2]); i++)
			wake_outer();
		return 0;
	}
	if (!strcmp(mode, "ghost"))
		return ghost();
	if (!strcmp(mode, "mapper"))
		return mapper(argv[0], atoi(argv[2]));
	if (!strcmp(mode, "hammer")) {
		seconds = atof(argv[2]);
		return hammer(atoi(argv[3]));
	}
	if (!strcmp(mode, "status"))
		return atoi(argv[2]);
	fprintf(stderr, "usage: work MODE\n");
	return 2;
}

// sumwaits ROUNDS waits for a mutex-like futex in known functions, by system calls of its own, and
// writes what each call did: "wait ADDR RESULT NANOSECONDS". It begins when a line comes, and
// ends when standard input does.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static unsigned word = 2, other = 2;

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// A system call without a function of a library around it, which may keep no frame pointer.
static long call(unsigned *at, int op, unsigned val, struct timespec *timeout)
{
	long ret;
#ifdef __x86_64__
	register struct timespec *r10 asm("r10") = timeout;
	asm volatile("syscall" : "=a"(ret) : "0"((long)SYS_futex), "D"(at), "S"((long)op), "d"((long)val), "r"(r10) : "rcx", "r11", "memory");
#else
	ret = syscall(SYS_futex, at, op, val, timeout, 0, 0);
	if (ret < 0)
		ret = -errno;
#endif
	return ret;
}

__attribute__((noinline)) static long sum_inner(unsigned *at, long ms)
{
	struct timespec t = {0, ms * 1000000};
	long long begin = now();
	long ret = call(at, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, ms ? &t : NULL);
	printf("wait %lu %ld %lld\n", (unsigned long)at, ret, now() - begin);
	return ret;
}

__attribute__((noinline)) static long sum_outer(unsigned *at, long ms)
{
	return sum_inner(at, ms) + 1;
}

static void *woken(void *unused)
{
	sum_outer(&other, 0);
	return unused;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	char line[16];
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	pthread_t t;
	if (pthread_create(&t, NULL, woken, NULL))
		return 1;
	for (int i = 0; i < rounds; i++) {
		sum_outer(&word, 12); // long
		sum_outer(&word, 1);  // mostly short
	}
	while (call(&other, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL) == 0) // until it waits
		usleep(1000);
	pthread_join(t, NULL);
	printf("done\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 3;
}

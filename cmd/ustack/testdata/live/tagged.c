// Threads that wait in raw futex calls, of which val3 says by which functions they came.
// It is compiled without frame pointers. Arguments: THREADS ROUNDS [LONGER [RELEASES]],
// where waits take LONGER times as long, and of RELEASES calls all but one wake others.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>

#define KEEP __attribute__((noinline, noclone, used, visibility("default")))

static uint32_t word;
static int rounds, signals; // signals that are left
static long longer = 1, releases;
static __thread long calls;

KEEP long tagged_wait(unsigned long tag)
{
	struct { long s, ns; } timeout = {0, (100000 + (tag & 7) * 100000) * longer};
	register void *r10 __asm__("r10") = &timeout;
	register void *r8 __asm__("r8") = 0;
	register unsigned long r9 __asm__("r9") = tag;
	long op = releases > 0 && ++calls % releases ? FUTEX_WAKE_PRIVATE : FUTEX_WAIT_PRIVATE;
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "0"((long)SYS_futex), "D"(&word), "S"(op), "d"(0L), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

long fa(unsigned path, unsigned long tag);
long fb(unsigned path, unsigned long tag);
long fc(unsigned path, unsigned long tag);

// Two bits of the path are the next function, 0 for none.
#define GO(path, tag) ((path & 3) == 1 ? fa(path >> 2, tag) : (path & 3) == 2 ? fb(path >> 2, tag) : (path & 3) == 3 ? fc(path >> 2, tag) : tagged_wait(tag))

KEEP long fa(unsigned path, unsigned long tag)
{
	long r = GO(path, tag);
	__asm__ volatile("" : "+r"(r));
	return r + 1;
}

KEEP long fb(unsigned path, unsigned long tag)
{
	volatile char pad[72];
	pad[path & 63] = 1;
	long a = path * 3, b = path * 5, c = path * 7, d = path * 11;
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
	long r = GO(path, tag);
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
	return r + pad[path & 63] + a + b + c + d;
}

KEEP long fc(unsigned path, unsigned long tag)
{
	volatile char *pad = __builtin_alloca(16 + (path & 7) * 16);
	pad[0] = 2;
	long r = GO(path, tag);
	return r + pad[0];
}

static unsigned any_path(unsigned *seed)
{
	unsigned path = 0;
	for (int n = 1 + rand_r(seed) % 9; n > 0; n--)
		path = path << 2 | (1 + rand_r(seed) % 3);
	return path;
}

KEEP void handler(int sig)
{
	static unsigned seed = 5;
	static const struct itimerval never;
	if (--signals <= 0)
		setitimer(ITIMER_REAL, &never, 0);
	unsigned path = any_path(&seed) & 0xff;
	volatile long r = GO(path, (0x58000000ul | path));
	(void)r;
	(void)sig;
}

KEEP void *worker(void *arg)
{
	unsigned seed = 1 + (unsigned)(long)arg;
	long sum = 0;
	for (int i = 0; i < rounds; i++) {
		unsigned path = any_path(&seed);
		sum += GO(path, (0x57000000ul | path));
	}
	return (void *)sum;
}

int main(int argc, char **argv)
{
	pthread_t list[64];
	int n = atoi(argv[1]);
	rounds = atoi(argv[2]);
	signals = n * rounds / 50;
	if (argc > 3)
		longer = atol(argv[3]);
	if (argc > 4)
		releases = atol(argv[4]);
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigaction(SIGALRM, &act, 0);
	struct itimerval each = {{0, 20000}, {0, 20000}};
	setitimer(ITIMER_REAL, &each, 0);
	for (long i = 0; i < n; i++)
		pthread_create(&list[i], 0, worker, (void *)i);
	for (int i = 0; i < n; i++)
		pthread_join(list[i], 0);
	return argc > 9;
}

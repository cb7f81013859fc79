// futexrate NS makes futex calls that do not sleep, one every NS nanoseconds, and prints how many
// turns of its loop are between two calls.
//
// futexrate TURNS CALLS does a fixed amount of work: CALLS futex calls, in turn a wakeup without
// a waiter and a wait with another value, with TURNS turns of a loop before each. Another thread
// waits meanwhile, in turn for 11 ms on one futex and for 2 ms on another one. It prints the time
// of all, the median time of a hundredth (both as if of all) and the CPU time of the thread, in
// ns, and then for each long wait's futex its address and how many waits there were.
//
// futexrate TURNS CALLS wait does that once a line has come, and stays then.
//
// futexrate TURNS CALLS parts CPU does that on one CPU, before all other programs, the other thread
// on any, each time that a line comes, and prints the time and the CPU time of all calls each time,
// until its input ends.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PARTS = 100 };

static unsigned word = 2, slow = 2, fast = 2;
static volatile int over;
static long waits;

static long long now(clockid_t of)
{
	struct timespec t;
	clock_gettime(of, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void work(long turns)
{
	for (volatile long i = 0; i < turns; i++)
		;
}

static void calls(long n, long turns)
{
	for (long i = 0; i < n; i += 2) {
		work(turns);
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		work(turns);
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, NULL, NULL, 0);
	}
}

static void sleep_at(unsigned *at, long ms)
{
	struct timespec t = {0, ms * 1000000};
	syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, 2, &t, NULL, 0);
}

static void *waiter(void *unused)
{
	while (!over) {
		sleep_at(&slow, 11);
		waits++;
		sleep_at(&fast, 2);
	}
	return unused;
}

static int compare(const void *a, const void *b)
{
	long long d = *(const long long *)a - *(const long long *)b;
	return (d > 0) - (d < 0);
}

// calibrate returns the turns of the loop that make a call take so many ns, by the best of some
// tries.
static long calibrate(double ns)
{
	enum { N = 20000 };
	double call = 1e9, turn = 1e9;
	for (int i = 0; i < 20; i++) {
		long long at = now(CLOCK_MONOTONIC);
		calls(N, 0);
		double one = (now(CLOCK_MONOTONIC) - at) / (double)N;
		at = now(CLOCK_MONOTONIC);
		work(100 * N);
		double loop = (now(CLOCK_MONOTONIC) - at) / (100.0 * N);
		call = one < call ? one : call;
		turn = loop < turn ? loop : turn;
	}
	return ns > call ? (ns - call) / turn : 0;
}

// parts does n calls on a CPU for each line.
static int parts(int on, long n, long turns)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(on, &one);
	struct sched_param first = {.sched_priority = 1};
	if (sched_setaffinity(0, sizeof(one), &one) || sched_setscheduler(0, SCHED_FIFO, &first))
		return 1;
	while (getchar() != EOF) {
		long long cpu = now(CLOCK_THREAD_CPUTIME_ID), at = now(CLOCK_MONOTONIC);
		calls(n, turns);
		at = now(CLOCK_MONOTONIC) - at;
		printf("%lld %lld\n", at, now(CLOCK_THREAD_CPUTIME_ID) - cpu);
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2) {
		printf("%ld\n", calibrate(atof(argv[1])));
		return 0;
	}
	if (argc < 3 || argc > 5)
		return 2;
	if (argc == 4)
		getchar();
	long turns = atol(argv[1]), n = atol(argv[2]) / PARTS;
	long long part[PARTS], begin, cpu;
	pthread_t t;
	if (pthread_create(&t, NULL, waiter, NULL))
		return 1;
	if (argc == 5)
		return parts(atoi(argv[4]), n * PARTS, turns);
	cpu = now(CLOCK_THREAD_CPUTIME_ID);
	begin = now(CLOCK_MONOTONIC);
	for (int i = 0; i < PARTS; i++) {
		long long at = now(CLOCK_MONOTONIC);
		calls(n, turns);
		part[i] = now(CLOCK_MONOTONIC) - at;
	}
	long long all = now(CLOCK_MONOTONIC) - begin;
	cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	over = 1;
	pthread_join(t, NULL);
	qsort(part, PARTS, sizeof(part[0]), compare);
	printf("%lld %lld %lld\n%p %ld\n", all, part[PARTS / 2] * PARTS, cpu, (void *)&slow, waits);
	fflush(stdout);
	if (argc == 4)
		pause();
	return 0;
}

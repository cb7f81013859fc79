// places: threads that fight for a lock whose holder computes: in long_part() four times as long
// as in short_part(). At the end it prints how long threads ran in each while they held it.
// cc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -pthread places.c
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long in_long, in_short, outside;
static int rounds = 100;

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

#define PART(name) \
	static __attribute__((noipa)) unsigned name(int n) \
	{ \
		unsigned x = n + sizeof #name; \
\
		for (long i = 0; i < n * 250000L; i++) { \
			x = x * 1664525 + 1013904223; \
			__asm__ volatile("" : "+r"(x)); \
		} \
		return x; \
	}

PART(long_part)
PART(short_part)
PART(other_part)

// Holds are of different length: else they would be in step with the ticks of the timer, at
// which the threads take turns.
static __attribute__((noinline)) void critical(unsigned *seed)
{
	int n = 1 + rand_r(seed) % 6;

	pthread_mutex_lock(&lock);
	long a = now();
	long_part(4 * n);
	long b = now();
	short_part(n);
	long c = now();
	in_long += b - a;
	in_short += c - b;
	pthread_mutex_unlock(&lock);
}

static void *thread(void *arg)
{
	unsigned seed = (long)arg;

	for (int i = 0; i < rounds; i++) {
		critical(&seed);
		long a = now();
		other_part(6);
		__atomic_add_fetch(&outside, now() - a, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[3];

	if (argc > 1)
		rounds = atoi(argv[1]);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, thread, (void *)(long)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	fprintf(stderr, "long_part %ld\nshort_part %ld\nother_part %ld\n", in_long, in_short, outside);
	return 0;
}

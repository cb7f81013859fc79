/*
 * Takes locks by a schedule, as mirror/main.go does: see there for input and output.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOCKS = 16, THREADS = 64, USES = 4096 };

struct use {
	int thread, lock, site, by;
	long long start, until; /* us */
	long long want, got, let, done; /* ns */
};

static struct use uses[USES];
static int count;
static long long zero; /* when the schedule begins, ns */
static pthread_mutex_t locks[LOCKS];
static struct use *holds[LOCKS][USES]; /* in the order of the schedule */
static int held[LOCKS], used[LOCKS];

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec - zero;
}

static void sleep_until(long long us)
{
	long long ns = zero + us * 1000;
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

/* Takes a lock when it is time, and returns how it is to be held. */
static struct use *take(const struct use *u)
{
	struct use *h;
	long long want;

	sleep_until(u->start);
	want = now();
	pthread_mutex_lock(&locks[u->lock]);
	h = holds[u->lock][used[u->lock]++];
	h->by = u->thread;
	h->want = want;
	h->got = now();
	return h;
}

/* Holds a lock and releases it. */
static __attribute__((noinline)) void hold(struct use *h)
{
	sleep_until(h->until);
	h->let = now();
	pthread_mutex_unlock(&locks[h->lock]);
	h->done = now();
}

/* The functions do the same. Their names tell them apart in a stack. */
#define SITE(name) \
	static __attribute__((noinline, no_icf)) void name(struct use *h) { hold(h); }
SITE(site0)
SITE(site1)
SITE(site2)
SITE(site3)
SITE(site4)

static void (*const sites[])(struct use *) = { site0, site1, site2, site3, site4 };

static void *run(void *thread)
{
	for (int i = 0; i < count; i++) {
		if (uses[i].thread != (int)(long)thread)
			continue;
		struct use *h = take(&uses[i]);

		sites[h->site](h);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int n = 0;
	struct use u = { 0 };

	while (scanf("%d %lld %lld %d %d", &u.thread, &u.start, &u.until, &u.lock, &u.site) == 5) {
		if (count == USES || u.thread >= THREADS || u.lock >= LOCKS || u.site > 4)
			return 1;
		uses[count] = u;
		holds[u.lock][held[u.lock]++] = &uses[count++];
		if (u.thread >= n)
			n = u.thread + 1;
	}
	for (int i = 0; i < LOCKS; i++)
		pthread_mutex_init(&locks[i], NULL);
	zero = now() + 50000000;
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)(long)i))
			return 1;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < count; i++)
		printf("%d %d %d %lld %lld %lld %lld\n", uses[i].by, uses[i].lock, uses[i].site,
		       uses[i].want, uses[i].got, uses[i].let, uses[i].done);
	return 0;
}

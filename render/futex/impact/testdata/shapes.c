// Programs with one bottleneck, for predictions: shape, then name=value parameters.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX = 16 };
static long hold = 1000, out = 1000, rounds = 200, threads = 3, shards = 1, removed, decoy = 100, decoys;
static pthread_mutex_t hot[MAX] = {[0 ... MAX - 1] = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER, loud = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static long queued;
static const char *shape;

// pause_us sleeps: work that needs no CPU, so that load disturbs it less.
static void pause_us(long us) {
	struct timespec t = {us / 1000000, us % 1000000 * 1000};
	if (us > 0)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

// spin_us needs CPU time.
static void spin_us(long us) {
	struct timespec a, b;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < us);
}

static void take(long id, long i, pthread_mutex_t **l) {
	unsigned x = (unsigned)(id * 2654435761u + i * 40503u) * 2246822519u; // a key, hashed
	x ^= x >> 15;
	x *= 2654435761u;
	*l = &hot[(x >> 16) % shards];
	if (!removed)
		pthread_mutex_lock(*l);
}
static void drop(pthread_mutex_t *l) {
	if (!removed)
		pthread_mutex_unlock(l);
}

static void *work(void *arg) {
	long id = (intptr_t)arg;
	pthread_mutex_t *l;
	for (long i = 0; i < rounds; i++) {
		take(id, i, &l);
		if (!strcmp(shape, "cpu"))
			spin_us(hold);
		else if (!strcmp(shape, "io")) {
			spin_us(hold / 10);
			pause_us(hold - hold / 10);
		} else if (!strcmp(shape, "nested")) {
			pause_us(hold / 2);
			pthread_mutex_lock(&inner);
			pause_us(hold / 2);
			pthread_mutex_unlock(&inner);
		} else
			pause_us(hold);
		drop(l);
		if (!strcmp(shape, "pipeline")) {
			pthread_mutex_lock(&queue_lock);
			queued++;
			pthread_cond_signal(&filled);
			pthread_mutex_unlock(&queue_lock);
		}
		pause_us(out + id * 37 % 200);
	}
	return NULL;
}

static void *consume(void *arg) {
	for (long i = 0; i < rounds * threads; i++) {
		pthread_mutex_lock(&queue_lock);
		while (queued == 0)
			pthread_cond_wait(&filled, &queue_lock);
		queued--;
		pthread_mutex_unlock(&queue_lock);
		pause_us(50);
	}
	return arg;
}

static void *noise(void *arg) {
	for (long i = 0; i < rounds / 4; i++) {
		pthread_mutex_lock(&loud);
		pause_us(decoy);
		pthread_mutex_unlock(&loud);
	}
	return arg;
}

int main(int argc, char **argv) {
	struct { const char *name; long *at; } all[] = {{"hold", &hold}, {"out", &out}, {"rounds", &rounds}, {"threads", &threads},
		{"shards", &shards}, {"removed", &removed}, {"decoy", &decoy}, {"decoys", &decoys}};
	pthread_t list[64];
	int n = 0;
	shape = argc > 1 ? argv[1] : "sleep";
	for (int i = 2; i < argc; i++)
		for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
			size_t len = strlen(all[k].name);
			if (!strncmp(argv[i], all[k].name, len) && argv[i][len] == '=')
				*all[k].at = atol(argv[i] + len + 1);
		}
	if (shards < 1 || shards > MAX || threads + decoys > 60)
		return 2;
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (long i = 0; i < threads; i++)
		pthread_create(&list[n++], NULL, work, (void *)(intptr_t)i);
	if (!strcmp(shape, "pipeline"))
		pthread_create(&list[n++], NULL, consume, NULL);
	for (long i = 0; i < decoys; i++)
		pthread_create(&list[n++], NULL, noise, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(list[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%ld hot=%p loud=%p\n", (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec, (void *)hot, (void *)&loud);
	return 0;
}

// Programs with one bottleneck, for predictions. What a program is comes from macros, so that
// a change is made as it is in practice: in the source, which is built again.
//
//	gcc -DSHAPE=sleep -DTHREADS=3 -DHOLD=1000 -DOUT=1000 ...
//
// A change is -DHOLD=500, -DSHARDS=4 or -DREMOVED=1. Times are in us.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifndef SHAPE
#define SHAPE sleep
#endif
#ifndef HOLD
#define HOLD 1000
#endif
#ifndef OUT
#define OUT 1000
#endif
#ifndef ROUNDS
#define ROUNDS 100
#endif
#ifndef THREADS
#define THREADS 3
#endif
#ifndef SHARDS
#define SHARDS 1
#endif
#ifndef REMOVED
#define REMOVED 0
#endif
#ifndef DECOYS
#define DECOYS 0
#endif
#ifndef DECOY
#define DECOY 100
#endif

// The first five are what the model was made with, the others are not.
enum shape { shape_sleep, shape_cpu, shape_io, shape_nested, shape_pipeline,
	shape_busy, shape_phases, shape_unequal, shape_two, shape_barrier, shape_rpc, shape_inherit, shape_brief,
	shape_mixed, shape_skewed };
#define NAME2(x) shape_##x
#define NAME(x) NAME2(x)
static const enum shape shape = NAME(SHAPE);

static pthread_mutex_t hot[SHARDS];
static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER, loud = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static long queued;

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

static unsigned hash(long id, long i) {
	unsigned x = (unsigned)(id * 2654435761u + i * 40503u) * 2246822519u;
	x ^= x >> 15;
	x *= 2654435761u;
	return x >> 16;
}

// server answers one thread's requests, each after a time under the lock of who asked.
struct server {
	int to[2], from[2];
};

static void *serve(void *arg) {
	struct server *s = arg;
	char c;
	while (read(s->to[0], &c, 1) == 1) {
		pause_us(HOLD);
		if (write(s->from[1], &c, 1) != 1)
			break;
	}
	return NULL;
}

// section is the critical section.
static void section(long id, long i, struct server *s) {
	char c = 0;
	switch (shape) {
	case shape_cpu:
	case shape_busy:
	case shape_brief:
		spin_us(HOLD);
		break;
	case shape_io:
		spin_us(HOLD / 10);
		pause_us(HOLD - HOLD / 10);
		break;
	case shape_nested:
		pause_us(HOLD / 2);
		pthread_mutex_lock(&inner);
		pause_us(HOLD / 2);
		pthread_mutex_unlock(&inner);
		break;
	case shape_unequal:
		pause_us(hash(i, id) % 4 ? HOLD / 2 : HOLD * 5 / 2);
		break;
	case shape_mixed:
		spin_us(HOLD / 2);
		pause_us(HOLD / 2);
		break;
	case shape_skewed:
		pause_us(id ? HOLD : HOLD * 3);
		break;
	case shape_rpc:
		if (write(s->to[1], &c, 1) != 1 || read(s->from[0], &c, 1) != 1)
			exit(1);
		break;
	default:
		pause_us(HOLD);
	}
}

static void after(long id, long i) {
	switch (shape) {
	case shape_pipeline:
		pthread_mutex_lock(&queue_lock);
		queued++;
		pthread_cond_signal(&filled);
		pthread_mutex_unlock(&queue_lock);
		break;
	case shape_two:
		pthread_mutex_lock(&inner);
		pause_us(600);
		pthread_mutex_unlock(&inner);
		break;
	case shape_barrier:
		if (i % 4 == 3)
			pthread_barrier_wait(&barrier);
		break;
	default:
		break;
	}
	if (shape == shape_busy)
		spin_us(OUT + id * 37 % 200);
	else
		pause_us(OUT + id * 37 % 200);
}

static void *work(void *arg) {
	long id = (intptr_t)arg;
	struct server s;
	pthread_t server;
	if (shape == shape_rpc) {
		if (pipe(s.to) || pipe(s.from))
			exit(1);
		pthread_create(&server, NULL, serve, &s);
	}
	for (long i = 0; i < ROUNDS; i++) {
		pthread_mutex_t *l = &hot[hash(id, i) % SHARDS];
		if (shape == shape_phases && i >= ROUNDS / 2) {
			pause_us(1000);
		} else {
			if (!REMOVED)
				pthread_mutex_lock(l);
			section(id, i, &s);
			if (!REMOVED)
				pthread_mutex_unlock(l);
		}
		after(id, i);
	}
	if (shape == shape_rpc) {
		close(s.to[1]);
		pthread_join(server, NULL);
	}
	return NULL;
}

static void *consume(void *arg) {
	for (long i = 0; i < ROUNDS * THREADS; i++) {
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
	for (long i = 0; i < ROUNDS / 4; i++) {
		pthread_mutex_lock(&loud);
		pause_us(DECOY);
		pthread_mutex_unlock(&loud);
	}
	return arg;
}

int main(void) {
	pthread_t list[THREADS + DECOYS + 1];
	pthread_mutexattr_t a;
	int n = 0;
	pthread_mutexattr_init(&a);
	if (shape == shape_inherit)
		pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	for (int i = 0; i < SHARDS; i++)
		pthread_mutex_init(&hot[i], &a);
	pthread_barrier_init(&barrier, NULL, THREADS);
	struct timespec from, to;
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&list[n++], NULL, work, (void *)(intptr_t)i);
	if (shape == shape_pipeline)
		pthread_create(&list[n++], NULL, consume, NULL);
	for (long i = 0; i < DECOYS; i++)
		pthread_create(&list[n++], NULL, noise, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(list[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%ld hot=%p loud=%p\n", (to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec, (void *)hot, (void *)&loud);
	return 0;
}

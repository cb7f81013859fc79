// Programs with one planted bottleneck and a louder decoy: which bottleneck, which decoy,
// how many threads, how long holds are in us.
//
// The workers do a number of rounds under the bottleneck; the run is over when they are
// done. The threads of the decoy wait for each other much longer in all, and end earlier.
// The program prints what it planted, and for how long threads waited there by its own
// clock: where the bottleneck and the decoy are, in bytes, and the sums in ns.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

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

// lock is any of the locks; what it is decides which part is used.
struct lock {
	pthread_mutex_t mutex, inner;
	pthread_rwlock_t rw;
	sem_t sem;
	pthread_cond_t cond;
	int busy;
	long waited; // by all threads
};
static struct lock hot, loud;

enum what { MUTEX, SPIN, RWLOCK, SEMAPHORE, CONDVAR, NESTED, PI, READERS, MANY, WHATS };
static const char *const names[WHATS] = {"mutex", "spin", "rwlock", "semaphore", "condvar", "nested", "pi", "readers", "many"};

enum { BUCKETS = 16 };
static pthread_mutex_t buckets[BUCKETS]; // of "many": one of them is hot

static void make(struct lock *l, enum what w) {
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	if (w == PI)
		pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&l->mutex, &a);
	pthread_mutex_init(&l->inner, NULL);
	pthread_rwlock_init(&l->rw, NULL);
	sem_init(&l->sem, 0, 1);
	pthread_cond_init(&l->cond, NULL);
}

static void enter(struct lock *l, enum what w, int id) {
	long from = now_ns();
	switch (w) {
	case RWLOCK:
		pthread_rwlock_wrlock(&l->rw);
		break;
	case READERS:
		if (id % 3)
			pthread_rwlock_rdlock(&l->rw);
		else
			pthread_rwlock_wrlock(&l->rw);
		break;
	case SEMAPHORE:
		while (sem_wait(&l->sem))
			;
		break;
	case CONDVAR:
		pthread_mutex_lock(&l->mutex);
		while (l->busy)
			pthread_cond_wait(&l->cond, &l->mutex);
		l->busy = 1;
		pthread_mutex_unlock(&l->mutex);
		break;
	case NESTED:
		pthread_mutex_lock(&l->mutex);
		pthread_mutex_lock(&l->inner);
		break;
	default:
		pthread_mutex_lock(&l->mutex);
	}
	__atomic_fetch_add(&l->waited, now_ns() - from, __ATOMIC_RELAXED);
}

static void leave(struct lock *l, enum what w) {
	switch (w) {
	case RWLOCK:
	case READERS:
		pthread_rwlock_unlock(&l->rw);
		break;
	case SEMAPHORE:
		sem_post(&l->sem);
		break;
	case CONDVAR:
		pthread_mutex_lock(&l->mutex);
		l->busy = 0;
		pthread_cond_signal(&l->cond);
		pthread_mutex_unlock(&l->mutex);
		break;
	case NESTED:
		pthread_mutex_unlock(&l->inner);
		pthread_mutex_unlock(&l->mutex);
		break;
	default:
		pthread_mutex_unlock(&l->mutex);
	}
}

static enum what planted, decoy;
static long workers, rounds, hold_us, decoys, decoy_us, decoy_ms;
static long begun;

static void *work(void *arg) {
	int id = (int)(intptr_t)arg;
	for (long i = 0; i < rounds; i++) {
		if (planted == MANY && i % 4) { // most of the work is under locks of which one has one
			pthread_mutex_t *own = &buckets[1 + id % (BUCKETS - 1)];
			pthread_mutex_lock(own);
			pause_us(hold_us / 8);
			pthread_mutex_unlock(own);
			continue;
		}
		enter(&hot, planted, id);
		if (planted == SPIN)
			spin_us(hold_us);
		else
			pause_us(hold_us);
		leave(&hot, planted);
		pause_us(50 + id * 17 % 60);
	}
	return NULL;
}

static void *shout(void *arg) {
	int id = (int)(intptr_t)arg;
	while (now_ns() - begun < decoy_ms * 1000000) {
		enter(&loud, decoy, id);
		pause_us(decoy_us);
		leave(&loud, decoy);
		pause_us(20);
	}
	return NULL;
}

static enum what find(const char *name) {
	for (int i = 0; i < WHATS; i++)
		if (!strcmp(name, names[i]))
			return i;
	exit(2);
}

int main(int argc, char **argv) {
	pthread_t list[64];
	if (argc != 9)
		return 2;
	planted = find(argv[1]), decoy = find(argv[2]);
	workers = atol(argv[3]), rounds = atol(argv[4]), hold_us = atol(argv[5]);
	decoys = atol(argv[6]), decoy_us = atol(argv[7]), decoy_ms = atol(argv[8]);
	if (workers + decoys > 64)
		return 2;
	make(&hot, planted), make(&loud, decoy);
	for (int i = 0; i < BUCKETS; i++)
		pthread_mutex_init(&buckets[i], NULL);
	begun = now_ns();
	for (long i = 0; i < workers; i++)
		pthread_create(&list[i], NULL, work, (void *)i);
	for (long i = 0; i < decoys; i++)
		pthread_create(&list[workers + i], NULL, shout, (void *)i);
	for (long i = 0; i < decoys; i++)
		pthread_join(list[workers + i], NULL);
	long quiet = now_ns() - begun;
	for (long i = 0; i < workers; i++)
		pthread_join(list[i], NULL);
	printf("hot=%p loud=%p bytes=%zu hot_ns=%ld loud_ns=%ld decoy_ns=%ld run_ns=%ld\n", (void *)&hot, (void *)&loud, sizeof hot,
		hot.waited, loud.waited, quiet, now_ns() - begun);
	return 0;
}

/*
 * Ways to take locks, for the test of inferred functions: compiled with frame
 * pointers, against a C library without. Functions that come to wait in the
 * library are called take_WAY; stacks of them are compared with an unwinder that
 * knows everything.
 *
 *	shapes ROUNDS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, pm, rm;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static volatile int sink;

KEEP void nap(void)
{
	struct timespec t = { 0, 300000 };

	nanosleep(&t, NULL);
	sink++;
}

/* The plain way. */
KEEP void take_direct(void)
{
	pthread_mutex_lock(&m);
	nap();
	pthread_mutex_unlock(&m);
	sink++;
}

/* The last call is a jump. */
KEEP int take_and_jump(void)
{
	pthread_mutex_lock(&m);
	nap();
	return pthread_mutex_unlock(&m);
}

/* Nobody else sees the function. */
KEEP static void take_static(int n)
{
	if (n > 0)
		pthread_mutex_lock(&m);
	nap();
	pthread_mutex_unlock(&m);
	sink++;
}

/* A wrapper, and one that only jumps: it is on no stack. */
KEEP void wrap(pthread_mutex_t *l)
{
	pthread_mutex_lock(l);
	sink++;
}

KEEP void take_by_wrapper(void)
{
	wrap(&m);
	nap();
	pthread_mutex_unlock(&m);
	sink++;
}

KEEP int jump(pthread_mutex_t *l) { return pthread_mutex_lock(l); }

KEEP void take_by_jump(void)
{
	jump(&m);
	nap();
	pthread_mutex_unlock(&m);
	sink++;
}

/* A function that has a frame and jumps to one that has a frame: the first one
 * is on no stack, although it was called last. */
KEEP int take_behind(pthread_mutex_t *l)
{
	int n = pthread_mutex_lock(l);

	nap();
	pthread_mutex_unlock(l);
	sink++;
	return n;
}

KEEP int vanish(pthread_mutex_t *l)
{
	sink++;
	nap();
	return take_behind(l);
}

/* By pointers: of the library's function, and of our own. */
static int (*volatile lock)(pthread_mutex_t *) = pthread_mutex_lock;

KEEP void take_by_pointer(void)
{
	lock(&m);
	nap();
	pthread_mutex_unlock(&m);
	sink++;
}

static int (*volatile behind)(pthread_mutex_t *) = take_behind;

KEEP void through_pointer(void)
{
	behind(&m);
	sink++;
}

/* Recursion. */
KEEP void take_deep(int n)
{
	if (n > 0) {
		take_deep(n - 1);
		sink++;
		return;
	}
	pthread_mutex_lock(&m);
	nap();
	pthread_mutex_unlock(&m);
	sink++;
}

/* With a large frame, and one of variable size. */
KEEP void take_large(int n)
{
	volatile char a[n], b[5000];

	a[0] = b[0] = 1;
	pthread_mutex_lock(&m);
	nap();
	pthread_mutex_unlock(&m);
	sink += a[0] + b[0];
}

/* A switch, which is a jump by a table. */
KEEP void take_by_switch(int n)
{
	switch (n & 7) {
	case 0: sink += 3; break;
	case 1: pthread_mutex_lock(&m); nap(); pthread_mutex_unlock(&m); break;
	case 2: sink *= 3; break;
	case 3: pthread_mutex_lock(&m); nap(); nap(); pthread_mutex_unlock(&m); break;
	case 4: sink ^= 77; break;
	case 5: sink -= 9; break;
	case 6: sink /= 3; break;
	case 7: wrap(&m); nap(); pthread_mutex_unlock(&m); break;
	}
	sink++;
}

/* Called from the library, by qsort. */
KEEP static int take_compare(const void *a, const void *b)
{
	pthread_mutex_lock(&m);
	nap();
	pthread_mutex_unlock(&m);
	return *(const int *)a - *(const int *)b;
}

KEEP void sorts(void)
{
	int a[2] = { 2, 1 };

	qsort(a, 2, sizeof(a[0]), take_compare);
	sink++;
}

/* Other locks. */
KEEP void take_timed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 10;
	pthread_mutex_timedlock(&m, &t);
	nap();
	pthread_mutex_unlock(&m);
	sink++;
}

KEEP void take_pi(void)
{
	pthread_mutex_lock(&pm);
	nap();
	pthread_mutex_unlock(&pm);
	sink++;
}

KEEP void take_recursive(void)
{
	pthread_mutex_lock(&rm);
	pthread_mutex_lock(&rm);
	nap();
	pthread_mutex_unlock(&rm);
	pthread_mutex_unlock(&rm);
	sink++;
}

KEEP void take_read(void)
{
	pthread_rwlock_rdlock(&rw);
	nap();
	pthread_rwlock_unlock(&rw);
	sink++;
}

KEEP void take_write(void)
{
	pthread_rwlock_wrlock(&rw);
	nap();
	pthread_rwlock_unlock(&rw);
	sink++;
}

KEEP void take_semaphore(void)
{
	sem_wait(&sem);
	nap();
	sem_post(&sem);
	sink++;
}

KEEP void take_condition(void)
{
	struct timespec t;

	pthread_mutex_lock(&m);
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec = (t.tv_nsec + 500000) % 1000000000;
	pthread_cond_timedwait(&cond, &m, &t);
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&m);
	sink++;
}

KEEP void round_of_all(int i)
{
	take_direct();
	take_and_jump();
	take_static(i + 1);
	take_by_wrapper();
	take_by_jump();
	vanish(&m);
	take_by_pointer();
	through_pointer();
	take_deep(3);
	take_large(100 + i);
	take_by_switch(2 * i + 1);
	sorts();
	take_timed();
	take_pi();
	take_recursive();
	take_read();
	take_write();
	take_semaphore();
	take_condition();
	sink++;
}

static int rounds;

KEEP static void *thread(void *arg)
{
	for (int i = 0; i < rounds; i++)
		round_of_all(i);
	return arg;
}

KEEP void take_join(pthread_t *th, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(th[i], NULL);
	sink++;
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t a;
	pthread_t th[4];

	rounds = argc > 1 ? atoi(argv[1]) : 10;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&pm, &a);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&rm, &a);
	sem_init(&sem, 0, 1);
	for (int i = 0; i < 4; i++)
		pthread_create(&th[i], NULL, thread, NULL);
	take_join(th, 4);
	return 0;
}

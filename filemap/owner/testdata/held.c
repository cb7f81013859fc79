/*
 * Takes a lock of each kind and has a thread wait for it. Prints a line for
 * each: kind, address, number of the owner, number of the waiter, both as
 * gettid(2) has them. Then it waits for its input to end.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/futex.h>

static pthread_mutex_t *make(int type, int robust, int protocol, int shared, int memory)
{
	pthread_mutexattr_t a;
	pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, memory | MAP_ANONYMOUS, -1, 0);

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, type);
	pthread_mutexattr_setrobust(&a, robust);
	pthread_mutexattr_setprotocol(&a, protocol);
	pthread_mutexattr_setpshared(&a, shared);
	if (pthread_mutex_init(m, &a))
		exit(3);
	return m;
}

struct wait {
	pthread_mutex_t *m;
	volatile int tid;
};

static void *lock(void *arg)
{
	struct wait *w = arg;

	w->tid = syscall(SYS_gettid);
	pthread_mutex_lock(w->m);
	return NULL;
}

/* word waits as for a mutex, for what is none. */
static void *word(void *arg)
{
	struct wait *w = arg;

	w->tid = syscall(SYS_gettid);
	syscall(SYS_futex, w->m, FUTEX_WAIT_PRIVATE, *(int *)w->m, NULL, NULL, 0);
	return NULL;
}

static void show(const char *kind, pthread_mutex_t *m, void *(*wait)(void *))
{
	struct wait *w = calloc(1, sizeof(*w));
	pthread_t t;

	w->m = m;
	pthread_create(&t, NULL, wait, w);
	while (!w->tid)
		usleep(1000);
	printf("%s %p %d %d\n", kind, (void *)m, (int)syscall(SYS_gettid), w->tid);
}

int main(void)
{
	static int nothing[64];
	struct {
		const char *kind;
		int type, robust, protocol, shared, memory;
	} kinds[] = {
		{ "plain", PTHREAD_MUTEX_NORMAL, 0, 0, 0, MAP_SHARED },
		{ "recursive", PTHREAD_MUTEX_RECURSIVE, 0, 0, 0, MAP_SHARED },
		{ "errorcheck", PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0, MAP_SHARED },
		{ "adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0, 0, MAP_SHARED },
		{ "shared", PTHREAD_MUTEX_NORMAL, 0, 0, 1, MAP_PRIVATE },
		{ "shared-memory", PTHREAD_MUTEX_NORMAL, 0, 0, 1, MAP_SHARED },
		{ "robust", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, 0, 0, MAP_PRIVATE },
		{ "robust-memory", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, 0, 0, MAP_SHARED },
		{ "pi", PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PRIO_INHERIT, 0, MAP_SHARED },
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		pthread_mutex_t *m = make(kinds[i].type, kinds[i].robust, kinds[i].protocol, kinds[i].shared, kinds[i].memory);

		pthread_mutex_lock(m);
		show(kinds[i].kind, m, lock);
	}
	nothing[0] = 2; /* with an owner of 0 */
	show("word", (pthread_mutex_t *)nothing, word);
	nothing[16] = 2;
	nothing[18] = 1; /* a number that is no thread of this process */
	nothing[19] = 1;
	show("foreign", (pthread_mutex_t *)(nothing + 16), word);
	nothing[32] = 7;
	nothing[34] = syscall(SYS_gettid);
	nothing[35] = 1;
	show("seven", (pthread_mutex_t *)(nothing + 32), word);
	puts("done");
	fflush(stdout);
	getchar();
	_exit(0);
}

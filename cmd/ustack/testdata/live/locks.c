// locks LIBRARY waits a while for locks in all kinds of memory: static ones of
// the program, of a library that it opens (locks.c with -DLIBRARY), and others.
// It writes "NAME+OFFSET ADDRESS" of each, or "- ADDRESS" of one that is no
// variable, and "done"; then it waits for the end of its input.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct entry {
	long key[8];
	pthread_mutex_t lock;
};

#ifdef LIBRARY
static pthread_mutex_t library_mutex;		      // .bss
static struct entry table[2] = { { .key = { 1 } } };  // .data

void locks(void (*wait)(const char *, unsigned, pthread_mutex_t *))
{
	wait("library_mutex", 0, &library_mutex);
	wait("table", (char *)&table[1].lock - (char *)table, &table[1].lock);
}
#else
static pthread_mutex_t cache_mutex;
static struct entry pool[1000] = { { .key = { 1 } } };
static struct entry zeros[1000];

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
}

/* Waits until a thread waits for the lock: glibc has 2 in its first word then. */
static void contended(pthread_mutex_t *lock)
{
	for (int i = 0; i < 1000 && *(volatile int *)lock != 2; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	nap();
}

static void *hold(void *lock)
{
	pthread_mutex_lock(lock);
	nap();
	pthread_mutex_unlock(lock);
	return NULL;
}

static void wait_for(const char *name, unsigned offset, pthread_mutex_t *lock)
{
	pthread_t t;

	pthread_mutex_lock(lock);
	pthread_create(&t, NULL, hold, lock);
	contended(lock);
	pthread_mutex_unlock(lock);
	pthread_join(t, NULL);
	if (offset)
		printf("%s+%#x %p\n", name, offset, (void *)lock);
	else
		printf("%s %p\n", name, (void *)lock);
}

int main(int argc, char **argv)
{
	pthread_mutex_t local = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_t *heap = calloc(1, sizeof(*heap)), *large = calloc(1, 1 << 20);

	wait_for("cache_mutex", 0, &cache_mutex);
	wait_for("pool", (char *)&pool[7].lock - (char *)pool, &pool[7].lock);
	wait_for("zeros", (char *)&zeros[999].lock - (char *)zeros, &zeros[999].lock);
	wait_for("-", 0, &local);
	wait_for("-", 0, heap);
	wait_for("-", 0, large);
	if (argc > 1) {
		void *library = dlopen(argv[1], RTLD_NOW);
		void (*locks)(void (*)(const char *, unsigned, pthread_mutex_t *));

		if (!library || !(locks = (void *)(uintptr_t)dlsym(library, "locks")))
			return 1;
		locks(wait_for);
	}
	puts("done");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
#endif

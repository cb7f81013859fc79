// A program with locks whose use is known: NAME=VALUE parameters, times in microseconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef PADDING // moves all code that follows
__attribute__((used, noinline)) static long padding(long n) {
	for (long i = 0; i < 100; i++)
		n = n * 31 + (n >> 3);
	return n;
}
#endif

enum { SHARDS = 4 };
static long run = 1500, transfer_us = 2000, audit_us = 1000, shards = 1, journal_us, threads = 3;
static pthread_mutex_t accounts_lock[SHARDS] = {[0 ... SHARDS - 1] = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t audit_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
static struct timespec start;

// pause_us sleeps: work that needs no CPU, so that load disturbs it less.
static void pause_us(long us) {
	struct timespec t = {us / 1000000, us % 1000000 * 1000};
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int ended(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 > run;
}

__attribute__((noinline)) static void transfer(unsigned n) {
	pthread_mutex_t *m = &accounts_lock[n % shards];
	pthread_mutex_lock(m);
	pause_us(transfer_us / 2 + n / 8 % transfer_us);
	pthread_mutex_unlock(m);
}

__attribute__((noinline)) static void audit(unsigned n) {
	pthread_mutex_lock(&audit_lock);
	pause_us(audit_us / 2 + n / 8 % audit_us);
	pthread_mutex_unlock(&audit_lock);
}

__attribute__((noinline)) static void journal(unsigned n) {
	pthread_mutex_lock(&journal_lock);
	pause_us(journal_us / 2 + n / 8 % journal_us);
	pthread_mutex_unlock(&journal_lock);
}

static void *teller(void *arg) {
	unsigned seed = (unsigned)(long)arg;
	while (!ended()) {
		unsigned n = rand_r(&seed);
		if (transfer_us)
			transfer(n);
		if (audit_us)
			audit(n);
		if (journal_us)
			journal(n);
		pause_us(1000);
	}
	return NULL;
}

int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		char name[16];
		long v;
		if (sscanf(argv[i], "%15[a-z]=%ld", name, &v) != 2)
			return 2;
		if (!strcmp(name, "run"))
			run = v;
		else if (!strcmp(name, "transfer"))
			transfer_us = v;
		else if (!strcmp(name, "audit"))
			audit_us = v;
		else if (!strcmp(name, "journal"))
			journal_us = v;
		else if (!strcmp(name, "shards") && v > 0 && v <= SHARDS)
			shards = v;
		else if (!strcmp(name, "threads") && v > 0 && v <= 64)
			threads = v;
		else
			return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
#ifdef PADDING
	if (padding(argc) == 42)
		return 3;
#endif
	pthread_t t[64];
	for (long i = 0; i < threads; i++) {
		char name[16];
		pthread_create(&t[i], NULL, teller, (void *)(i + start.tv_nsec));
		snprintf(name, sizeof name, "teller-%ld", i);
		pthread_setname_np(t[i], name);
	}
	for (long i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	return 0;
}

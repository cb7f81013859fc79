// kinds: two threads that fight for a lock, whose holder is blocked by what is asked for.
// Each kind has a function of its own.
//
//	kinds sleep|sync|read|poll|fault|futex FILE ROUNDS
//
// cc -O2 -pthread kinds.c
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

enum { FILE_BYTES = 32 << 20, FAULTS = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t asked, done;
static int file, ask[2], answer[2], rounds;
static char *mapped;
static volatile char sink;

static void nap(long us)
{
	struct timespec t = { 0, us * 1000 };

	nanosleep(&t, NULL);
}

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

KEEP static void hold_sleep(void)
{
	nap(4000);
	sink++;
}

KEEP static void hold_sync(void)
{
	static char block[1 << 20];

	block[0]++;
	must(pwrite(file, block, sizeof block, 0) == sizeof block, "pwrite");
	must(fdatasync(file) == 0, "fdatasync");
	sink++;
}

KEEP static void hold_read(void)
{
	char c = 'q';

	must(write(ask[1], &c, 1) == 1 && read(answer[0], &c, 1) == 1, "read");
	sink++;
}

KEEP static void hold_poll(void)
{
	char c = 'q';
	struct pollfd p = { answer[0], POLLIN, 0 };

	must(write(ask[1], &c, 1) == 1 && poll(&p, 1, -1) == 1 && read(answer[0], &c, 1) == 1, "poll");
	sink++;
}

// Pages of a file that memory does not have.
KEEP static void hold_fault(void)
{
	for (int i = 0; i < FAULTS; i++)
		sink += mapped[(rand() % (FILE_BYTES / 4096)) * 4096];
}

KEEP static void hold_futex(void)
{
	sem_post(&asked);
	sem_wait(&done);
	sink++;
}

static const struct {
	const char *name;
	void (*hold)(void);
} kinds[] = { { "sleep", hold_sleep }, { "sync", hold_sync }, { "read", hold_read },
	{ "poll", hold_poll }, { "fault", hold_fault }, { "futex", hold_futex } };

static void *fights(void *hold)
{
	for (int i = 0; i < rounds; i++) {
		if (hold == (void *)hold_fault) {
			madvise(mapped, FILE_BYTES, MADV_DONTNEED);
			posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
		}
		pthread_mutex_lock(&lock);
		((void (*)(void))hold)();
		pthread_mutex_unlock(&lock);
		nap(500); // others get the lock
	}
	return NULL;
}

static void *answers(void *arg)
{
	char c;

	while (read(ask[0], &c, 1) == 1) {
		nap(3000);
		must(write(answer[1], &c, 1) == 1, "write");
	}
	return arg;
}

static void *posts(void *arg)
{
	for (;;) {
		sem_wait(&asked);
		nap(3000);
		sem_post(&done);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t[2], other;
	void (*hold)(void) = NULL;

	for (size_t i = 0; argc == 4 && i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(argv[1], kinds[i].name))
			hold = kinds[i].hold;
	must(hold != NULL, "kinds");
	rounds = atoi(argv[3]);
	file = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(file >= 0 && posix_fallocate(file, 0, FILE_BYTES) == 0 && pipe(ask) == 0 && pipe(answer) == 0, "open");
	if (hold == hold_fault) { // what was never written is not read
		static char block[1 << 20];

		for (int i = 0; i < FILE_BYTES >> 20; i++)
			must(pwrite(file, block, sizeof block, (off_t)i << 20) == sizeof block, "pwrite");
		must(fsync(file) == 0, "fsync");
		mapped = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, file, 0);
		must(mapped != MAP_FAILED, "mmap");
		madvise(mapped, FILE_BYTES, MADV_RANDOM);
	}
	sem_init(&asked, 0, 0);
	sem_init(&done, 0, 0);
	pthread_create(&other, NULL, hold == hold_futex ? posts : answers, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, fights, (void *)hold);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	exit(0);
}

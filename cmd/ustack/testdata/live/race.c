// race WAY LIBRARY ROUNDS: in each round one thread unmaps a page while another one puts the
// code of a file there: maps it (mmap), or moves it there (mremap). When both are done, a call
// of futex has a frame that returns to that page, and says with val3 whether the code is there
// (1) or not (2). With loss, a thread unmaps other memory in a loop instead, on the same CPU, so
// that records of that are lost, and the code comes and goes meanwhile.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "call.h"

// What comes to the place of so much memory takes a while, and a thread that unmaps waits
// until it has.
enum { page = 4096, size = 2 << 20, turns = 1 << 18, longest = 100000 };

static char *const at = (char *)0x600000000000, *const from = (char *)0x610000000000;
static atomic_int began, going, ended;
static int fd, rounds, moves;

static void place(char *to, int prot, int flags, int file)
{
	if (mmap(to, size, prot, flags | MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
		perror("mmap"), _exit(1);
}

static void code(char *to) { place(to, PROT_READ | PROT_EXEC, 0, fd); }

static void await(atomic_int *reached, int round)
{
	for (int i = 0; atomic_load(reached) < round; i++)
		if (i % turns == turns - 1)
			sched_yield();
}

static void delay(int by)
{
	for (volatile int i = 0; i < by % longest; i++)
		;
}

static void *puts_code(void *unused)
{
	(void)unused;
	for (int round = 1; round <= rounds; round++) {
		await(&began, round);
		atomic_store(&going, round);
		delay(round * 3571);
		if (!moves)
			code(at);
		else if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at)
			perror("mremap"), _exit(1);
		atomic_store(&ended, round);
	}
	return NULL;
}

static void *storms(void *unused)
{
	for (;;)
		munmap(mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), page);
	return unused;
}

// amid_loss has the code come and go while records are lost.
static int amid_loss(void)
{
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	pthread_t thread;
	if (sched_setaffinity(0, sizeof first, &first) != 0 || pthread_create(&thread, NULL, storms, NULL) != 0)
		return 1;
	for (int round = 0; round < rounds; round++) {
		uintptr_t frame[2] = {0, (uintptr_t)at + 0x10};
		code(at);
		call(frame, 1);
		sched_yield();
		munmap(at, page);
		for (int i = 0; i < 3; i++) {
			call(frame, 2);
			sched_yield();
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 4 || (fd = open(argv[2], O_RDONLY)) < 0)
		return 2;
	moves = strcmp(argv[1], "mremap") == 0;
	rounds = atoi(argv[3]);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); // a huge page takes no while
	if (strcmp(argv[1], "loss") == 0)
		return amid_loss();
	pthread_t thread;
	if (pthread_create(&thread, NULL, puts_code, NULL) != 0)
		return 1;
	for (int round = 1; round <= rounds; round++) {
		place(at, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_POPULATE, -1);
		if (moves)
			code(from);
		atomic_store(&began, round);
		await(&going, round);
		delay(round * 7919 % longest / 4);
		munmap(at, page);
		await(&ended, round);
		uintptr_t frame[2] = {0, (uintptr_t)at + 0x10};
		call(frame, there(at) ? 1 : 2);
	}
	return 0;
}

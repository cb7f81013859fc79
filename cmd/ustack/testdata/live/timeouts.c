/*
 * A thread waits at a futex for 12 s, once. When a line has been read, eight others wait again and
 * again, for a millisecond each, until the input ends.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8 };

static void waits(int *word, long sec, long ns)
{
	struct timespec t = { sec, ns };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
}

static void *once(void *at)
{
	waits(at, 12, 0);
	return NULL;
}

static void *again(void *at)
{
	for (;;)
		waits(at, 0, 1000000);
	return NULL;
}

int main(void)
{
	static int words[THREADS + 1];
	pthread_t thread;
	char line[8];

	pthread_create(&thread, NULL, once, &words[THREADS]);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, again, &words[i]);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}

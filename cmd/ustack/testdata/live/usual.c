/*
 * Waits at two futexes, each as long as usual: 400 times 2 ms at the one, and, in another
 * thread, 110 times 40 ms at the other. With PAUSE, after so many seconds once more at the
 * first, for thirty times the longest wait there. Prints the shortest and the longest of the
 * usual waits of both, in ns.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct usual {
	int word, times;
	long ns, least, most;
};

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static long waits(struct usual *u, long ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };
	long begin = now();

	syscall(SYS_futex, &u->word, FUTEX_WAIT_PRIVATE, 0, &t);
	return now() - begin;
}

static void *all(void *arg)
{
	struct usual *u = arg;

	for (int i = 0; i < u->times; i++) {
		long took = waits(u, u->ns);

		if (!u->least || took < u->least)
			u->least = took;
		if (took > u->most)
			u->most = took;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct usual fast = { 0, 400, 2000000 }, slow = { 0, 110, 40000000 };
	pthread_t other;

	pthread_create(&other, NULL, all, &slow);
	all(&fast);
	pthread_join(other, NULL);
	printf("%ld %ld %ld %ld\n", fast.least, fast.most, slow.least, slow.most);
	if (argc > 1) {
		sleep(atoi(argv[1]));
		waits(&fast, 30 * fast.most);
	}
	return 0;
}

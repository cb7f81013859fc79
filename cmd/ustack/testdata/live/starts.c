// starts N begins threads with two functions, which take a lock in turn, N times
// each, so that their stacks differ in nothing but these functions, which have no
// frame in the kernel's. Each writes its number and what it is called.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int rounds;

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void *first_of_all(void *arg)
{
	printf("%d first_of_all\n", gettid());
	for (int i = 0; i < rounds; i++) {
		pthread_mutex_lock(&lock);
		nap();
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

static void *second_to_none(void *arg)
{
	printf("%d second_to_none\n", gettid());
	for (int i = 0; i < rounds; i++) {
		pthread_mutex_lock(&lock);
		nap();
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

int main(int argc, char **argv)
{
	void *(*const starts[])(void *) = { first_of_all, second_to_none };

	rounds = argc > 1 ? atoi(argv[1]) : 1;
	for (int herds = 0; herds < 2; herds++) {
		pthread_t t[4];

		for (int i = 0; i < 4; i++)
			pthread_create(&t[i], NULL, starts[i % 2], NULL);
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
	}
	return 0;
}

/*
 * Threads that wait for a lock, to be compiled without frame pointers and without
 * .eh_frame: who called is in .debug_frame only, which a separate debug file can have.
 */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long sum;

__attribute__((noinline)) void hold_lock(int n)
{
	pthread_mutex_lock(&lock);
	usleep(200);
	sum += n;
	pthread_mutex_unlock(&lock);
	sum += 1;
}

__attribute__((noinline)) void middle(int n)
{
	volatile char room[200];

	for (int i = 0; i < 200; i++)
		room[i] = n;
	hold_lock(room[n % 200]);
	sum += room[3];
}

static void *work(void *unused)
{
	(void)unused;
	for (int i = 0; i < 200; i++) {
		middle(i);
		sum++;
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

// holder: threads that fight for a lock whose holder sleeps: in work(), 20 ms each time.
// cc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -pthread holder.c
#include <pthread.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void work(void)
{
	struct timespec t = {0, 20000000};

	nanosleep(&t, NULL);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void critical(void)
{
	pthread_mutex_lock(&lock);
	work();
	pthread_mutex_unlock(&lock);
}

static void *thread(void *arg)
{
	(void)arg;
	struct timespec t = {0, 2000000}; // others get the lock

	for (int i = 0; i < 25; i++) {
		critical();
		nanosleep(&t, NULL);
	}
	return NULL;
}

int main(void)
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, thread, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	return 0;
}

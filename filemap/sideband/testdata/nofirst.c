// A process whose first thread has ended, or two of them: it prints their PIDs.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *stay(void *arg)
{
	int pid = fork();
	if (pid > 0) {
		printf("%d %d\n", getpid(), pid);
		fflush(stdout);
		getchar();
		return arg;
	}
	pthread_t t;
	pthread_create(&t, 0, (void *(*)(void *))pause, 0);
	pthread_exit(0);
}

int main(void)
{
	pthread_t t;
	pthread_create(&t, 0, stay, 0);
	pthread_exit(0);
}

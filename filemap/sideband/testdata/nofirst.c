/* Two processes whose first threads have ended: the other one of the first writes the
 * PIDs, and ends with its input. The second ends with it. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
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
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_create(&t, 0, (void *(*)(void *))pause, 0);
	pthread_exit(0);
}

int main(void)
{
	pthread_t t;
	pthread_create(&t, 0, stay, 0);
	pthread_exit(0);
}

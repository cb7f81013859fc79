// A thread that waits below a buffer that it never touches, again and again.
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int word;

__attribute__((noinline)) int wait_once(char *first)
{
	struct timespec t = { 0, 300000 };
	*first = 1; // the lowest byte of the buffer
	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, 0, 0) + *first;
}

__attribute__((noinline)) int with_buffer(void)
{
	char buffer[20000];
	return wait_once(buffer) + buffer[0];
}

void *thread(void *arg)
{
	for (int n = atoi(arg); n > 0; n--)
		with_buffer();
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t t;
	pthread_create(&t, 0, thread, argv[1]);
	pthread_join(t, 0);
}

// Threads that sleep in calls of the C library, for longer than a millisecond, each called by
// functions of its own. The program is built without frame pointers: the kernel's stacks of
// these waits end in the C library.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static int rounds, pipes[2];

__attribute__((noinline)) static void nap_inner(void) { usleep(4000); __asm__ volatile(""); }
__attribute__((noinline)) static void nap_outer(void) { nap_inner(); __asm__ volatile(""); }

__attribute__((noinline)) static int pull_inner(void) {
	char c;
	int n = read(pipes[0], &c, 1);
	__asm__ volatile("");
	return n;
}
__attribute__((noinline)) static int pull_outer(void) { return pull_inner() + 1; }

__attribute__((noinline)) static void look_inner(void) { poll(NULL, 0, 5); __asm__ volatile(""); }
__attribute__((noinline)) static void look_outer(void) { look_inner(); __asm__ volatile(""); }

__attribute__((noinline)) static void push_inner(void) { usleep(6000); if (write(pipes[1], "x", 1) != 1) abort(); }
__attribute__((noinline)) static void push_outer(void) { push_inner(); __asm__ volatile(""); }

static void *nap(void *arg) { pthread_setname_np(pthread_self(), "nap"); for (int i = 0; i < rounds; i++) nap_outer(); return arg; }
static void *pull(void *arg) { pthread_setname_np(pthread_self(), "pull"); while (pull_outer() > 1); return arg; }
static void *look(void *arg) { pthread_setname_np(pthread_self(), "look"); for (int i = 0; i < rounds; i++) look_outer(); return arg; }
static void *push(void *arg) { pthread_setname_np(pthread_self(), "push"); for (int i = 0; i < rounds; i++) push_outer(); close(pipes[1]); return arg; }

int main(int argc, char **argv) {
	void *(*const all[])(void *) = { nap, pull, look, push };
	pthread_t t[4];
	(void)argc;
	rounds = atoi(argv[1]);
	if (pipe(pipes)) return 1;
	for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, all[i], NULL);
	for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
	return 0;
}

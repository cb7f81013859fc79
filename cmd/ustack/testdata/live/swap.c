// swap LIBRARY LIBRARY ROUNDS: waits in a function of the first library, unloads it and loads the
// second one at once in its place, and goes on waiting there. Its last line is how often the second
// one was where the first one had been, and the addresses of the two futexes. As a library, it has
// that function, NAME.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef LIBRARY
long NAME(long (*call)(int *, long), int *word, long ms)
{
	long r = call(word, ms);

	__asm__ volatile("" : "+r"(r));
	return r + 1;
}
#else

typedef long (*function)(long (*)(int *, long), int *, long);

static long sleeps(int *word, long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &t, 0, 0);
}

static void *waits(const char *library, int *word, long ms)
{
	void *handle = dlopen(library, RTLD_NOW);
	function f = handle ? (function)dlsym(handle, "waits_in_first") : NULL;

	if (handle && !f)
		f = (function)dlsym(handle, "waits_in_second");
	if (!f)
		exit(1);
	f(sleeps, word, ms);
	dlclose(handle);
	return (void *)f;
}

int main(int argc, char **argv)
{
	static int words[2];
	int same = 0;

	if (argc != 4)
		return 2;
	for (int i = 0; i < atoi(argv[3]); i++) {
		void *first = waits(argv[1], &words[0], 5);

		same += first == waits(argv[2], &words[1], 300);
	}
	printf("%d %p %p\n", same, (void *)&words[0], (void *)&words[1]);
	return 0;
}
#endif

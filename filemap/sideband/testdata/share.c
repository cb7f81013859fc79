/* Two processes that share their memory (clone with CLONE_VM). For each line of
 * input the second maps code, unmaps it, then ends; the first writes the PIDs, then
 * the address. The second ends with the first, too. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int to[2], done[2];
static char *code;

static void next(void)
{
	char c;
	if (read(to[0], &c, 1) != 1)
		_exit(1);
}

static int second(void *unused)
{
	char c = 0;
	close(to[1]); // which is open twice: when the first process has ended, the read does, too
	next();
	code = mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	write(done[1], &c, 1);
	next();
	munmap(code, 4096);
	write(done[1], &c, 1);
	next();
	write(done[1], &c, 1);
	_exit(0);
}

int main(void)
{
	char line[16], *stack = malloc(1 << 16), c = 0;
	if (pipe(to) || pipe(done))
		return 1;
	int pid = clone(second, stack + (1 << 16), CLONE_VM | 17, 0);
	printf("%d %d\n", getpid(), pid);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		write(to[1], &c, 1);
		read(done[0], &c, 1);
		printf("%p\n", code);
		fflush(stdout);
	}
	return 0;
}

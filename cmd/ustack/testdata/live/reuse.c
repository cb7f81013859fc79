// reuse N: N processes, one after the other, that all have the same PID. Each opens
// a file.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static void life(void)
{
	int fd = open("/dev/null", O_RDONLY);

	if (fd >= 0)
		close(fd);
}

/* A PID that is free now. */
static pid_t unused(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	pid_t same = unused();

	for (int i = 0; i < n; i++) {
		struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&same, .set_tid_size = 1 };
		long pid = syscall(SYS_clone3, &args, sizeof args);

		if (pid == 0) {
			life();
			_exit(0);
		}
		if (pid < 0 && errno == EEXIST) { // another process has it
			same = unused();
			continue;
		}
		if (pid < 0) {
			perror("clone3");
			return 1;
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

// turns A B N: executes B, which executes A, N times in all. Linked statically
// to a fixed address, the two have other code at the same place.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef PAD
__attribute__((used)) static void pad(void) { __asm__ volatile(".fill 40000, 1, 0"); }
#endif

extern char **environ;

int main(int argc, char **argv)
{
	int left = argc == 4 ? atoi(argv[3]) : 0;
	if (left == 0)
		return 0;
	char text[16];
	snprintf(text, sizeof text, "%d", left - 1);
	char *next[] = {argv[2], argv[2], argv[1], text, NULL};
	execve(argv[2], next, environ);
	return 1;
}

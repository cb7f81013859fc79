/* vdso asks 20 times for a time that the vDSO has to ask the kernel for, and
 * then waits for the end of its input. */
#include <stdio.h>
#include <time.h>

int main(void)
{
	struct timespec t;

	for (int i = 0; i < 20; i++)
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while (getchar() != EOF)
		;
	return 0;
}

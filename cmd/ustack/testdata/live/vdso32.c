// A program of 64 bits that takes its vDSO away and maps that of 32-bit programs
// (ARCH_MAP_VDSO_32, man 2 arch_prctl). It prints where that is, waits for a byte, and calls
// futex once for each of its addresses, with it as the caller's caller by the frame pointers.
// It ends with 3 if the kernel cannot do that.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAP_VDSO_32 0x2002
#define SIZE 0x2000

static unsigned word;

static void call(unsigned long from)
{
	register long op asm("rdx") = 1 /* FUTEX_WAKE */ | 128 /* FUTEX_PRIVATE_FLAG */;
	__asm__ volatile("push %%rbp; mov %%rsp, %%rbp; push %1; push %%rbp; mov %%rsp, %%rbp;"
			 "mov %0, %%rdi; mov %%rdx, %%rsi; mov $1, %%edx; mov $202, %%eax; syscall;"
			 "add $16, %%rsp; pop %%rbp"
			 :: "r"(&word), "r"(from), "r"(op) : "rax", "rcx", "r11", "rdi", "rsi", "memory");
}

int main(void)
{
	char line[512], name[64];
	unsigned long at[8][2], n = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	while (f && n < 8 && fgets(line, sizeof line, f))
		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %63s", &at[n][0], &at[n][1], name) == 3 &&
		    (!strcmp(name, "[vdso]") || !strncmp(name, "[vvar", 5)))
			n++;
	for (unsigned long i = 0; i < n; i++)
		if (munmap((void *)at[i][0], at[i][1] - at[i][0]))
			return 3;
	unsigned long to = 0x7e0000000000;
	if (syscall(SYS_arch_prctl, MAP_VDSO_32, to) < 0)
		return 3;
	to = 0;
	f = freopen("/proc/self/maps", "r", f);
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "%lx-%*x %*s %*s %*s %*s %63s", &n, name) == 2 && !strcmp(name, "[vdso]"))
			to = n;
	if (!to)
		return 3;
	printf("%#lx\n", to);
	fflush(stdout);
	read(0, line, 1);
	for (unsigned long o = 0; o < SIZE; o++)
		call(to + o);
	return 0;
}

// A program with what makes names hard: inlined functions, static ones, copies
// that the compiler makes, aliases, an indirect function, assembly.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__asm__(".text\n.globl bare\nbare:\n\tnop\n\tnop\n\tret\n.globl sized\n.type sized,@function\nsized:\n\tnop\n\tret\n.size sized,.-sized\n");
void bare(void);
void sized(void);

static inline __attribute__((always_inline)) int leaf(int x)
{
	if (x & 1)
		return printf("%d\n", x) + x;
	return x * 3;
}

static inline __attribute__((always_inline)) int middle(int x)
{
	int n = 0;
	for (int i = 0; i < x; i++)
		n += leaf(i);
	return n;
}

static __attribute__((noinline)) int rare(const char *what, int code)
{
	fprintf(stderr, "%s: %d\n", what, code);
	if (code > 40)
		abort();
	return code;
}

__attribute__((noinline)) int work(int x)
{
	if (__builtin_expect(x > 1000, 0))
		return rare("too large", x);
	return middle(x) + middle(x / 2);
}

int work_alias(int) __attribute__((alias("work")));

static int quick(int x) { return x + 1; }
static int slow(int x) { return x + 2; }
static void *choose(void) { return getenv("QUICK") ? (void *)quick : (void *)slow; }
int either(int) __attribute__((ifunc("pick")));
static void *pick(void) { return quick; }

static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(int argc, char **argv)
{
	int v[16];
	for (int i = 0; i < 16; i++)
		v[i] = work_alias(i * argc) % 7;
	qsort(v, 16, sizeof v[0], order);
	bare();
	sized();
	int (*f)(int) = choose();
	return v[0] + either(argc) + f(argc) + (int)strlen(argv[0]) + rare("end", 3);
}

// A program and, with LIBRARY, a library with variables of all kinds. It writes
// "NAME+OFFSET ADDRESS" for places in them, "- ADDRESS" for places that are in no
// static variable, and "done"; then it waits for the end of its input.
#include <stdio.h>
#include <stdlib.h>

#ifdef LIBRARY
#define NAME(x) lib_##x
#else
#define NAME(x) x
#endif

struct locks {
	char pad[64];
	int lock[16];
};

static int NAME(zero);				     // .bss
static int NAME(one) = 1;			     // .data
int NAME(seen) = 2;				     // .data, exported
static struct locks NAME(pool) = { .lock = { 1 } };  // .data
static struct locks NAME(wide)[1 << 10];	     // .bss, of many pages
static __thread int NAME(own) = 7;		     // .tdata
static __thread int NAME(own_zero);		     // .tbss
static const int NAME(constant) = 5;		     // .rodata

static void at(const char *name, volatile void *p) { printf("%s %p\n", name, (void *)p); }

#define STR2(x) #x
#define STR(x) STR2(x)
#define AT(x, more, p) at(STR(NAME(x)) more, p)

void NAME(places)(void)
{
	NAME(own)++;
	NAME(own_zero)++;
	NAME(zero) += NAME(one) + NAME(constant);
	AT(zero, "", &NAME(zero));
	AT(one, "", &NAME(one));
	AT(one, "+0x3", (char *)&NAME(one) + 3);
	AT(seen, "", &NAME(seen));
	AT(pool, "", &NAME(pool));
	AT(pool, "+0x40", &NAME(pool).lock[0]);
	AT(pool, "+0x7f", (char *)&NAME(pool) + 0x7f);
	AT(wide, "", NAME(wide));
	AT(wide, "+0x1ffc0", &NAME(wide)[1023].lock[0]);
	at("-", &NAME(own));
	at("-", &NAME(own_zero));
	at("-", (void *)&NAME(constant));
}

#ifndef LIBRARY
void lib_places(void) __attribute__((weak));

int main(void)
{
	int local = 0;

	places();
	if (lib_places)
		lib_places();
	at("-", &local);
	at("-", malloc(64));
	at("-", malloc(1 << 20));
	at("-", (void *)main);
	at("-", (void *)16);
	puts("done");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
#endif

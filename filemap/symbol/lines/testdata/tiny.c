static inline __attribute__((always_inline)) int leaf(volatile int *p, int x) { *p = x; return *p + x; }
static inline __attribute__((always_inline)) int middle(volatile int *p, int x) { if (x > 3) { int y = leaf(p, x); x += y; } return leaf(p, x + 1); }
static __attribute__((noinline)) int work(volatile int *p, int x) { for (int i = 0; i < x; i++) middle(p, i); return middle(p, x); }
int other(int x) { volatile int v = 0; return work(&v, x); }
void _start(void) { volatile int v = 0; other(work(&v, 5)); for (;;) ; }

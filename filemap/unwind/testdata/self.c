// A program that writes its own stacks: at many depths and shapes of frames it
// copies its registers and its stack, and the chain of callers that it has noted
// itself. Each record is: registers by DWARF number (33), how many callers, the
// callers' return addresses (innermost first), how many bytes of stack, the bytes.
// With TINY it needs no C library.
#include <stddef.h>
#include <stdint.h>
#ifdef TINY
#define O_RDONLY 0
typedef long ssize_t;
static long call(long n, long a, long b, long c, long d) {
#ifdef __aarch64__
	register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
#else
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return n;
#endif
}
#ifdef __aarch64__
enum { OPENAT = 56, READ = 63, WRITE = 64, EXIT = 94 };
#else
enum { OPENAT = 257, READ = 0, WRITE = 1, EXIT = 231 };
#endif
#define open(p, f) call(OPENAT, -100, (long)(p), f, 0)
#define read(f, p, n) call(READ, f, (long)(p), n, 0)
#define write(f, p, n) call(WRITE, f, (long)(p), n, 0)
#define _exit(n) call(EXIT, n, 0, 0, 0)
#ifndef COUNT
#define COUNT 12
#endif
#define atoi(s) COUNT
int main(int argc, char **argv);
__attribute__((used)) void start(void) { _exit(main(0, 0)); __builtin_trap(); }
#ifdef __aarch64__
__asm__(".globl _start\n.type _start, %function\n_start: .cfi_startproc\n.cfi_undefined x30\nmov x29, 0\nmov x30, 0\nbl start\nbrk 0\n.cfi_endproc\n");
#else
__asm__(".globl _start\n.type _start, @function\n_start: .cfi_startproc\n.cfi_undefined rip\nxor %ebp, %ebp\nand $-16, %rsp\ncall start\nhlt\n.cfi_endproc\n");
#endif
#else
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#endif
#undef alloca
#define alloca __builtin_alloca

#define NOINLINE __attribute__((noinline, noclone))
#define MAX 64
static uint64_t chain[MAX];
static int depth;
static uint64_t top;
static int out;
static volatile uint64_t sink;
static uint64_t state = 88172645463325252ull;

static uint64_t rnd(void) {
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

#ifdef __aarch64__
#define PLAIN(p) ((uint64_t)(p) & 0xffffffffffffull)
#else
#define PLAIN(p) ((uint64_t)(p))
#endif
#define ENTER chain[depth++] = PLAIN(__builtin_return_address(0))
#define LEAVE depth--

static void put(const void *p, size_t n) {
	if (write(out, p, n) != (ssize_t)n) _exit(3);
}

// dump is called with its registers at the instruction that regs[32] names.
static NOINLINE void dump(void) {
	static uint64_t regs[33];
	ENTER;
#ifdef __aarch64__
	__asm__ volatile(
		"stp x0, x1, [%0]\n stp x2, x3, [%0, 16]\n stp x4, x5, [%0, 32]\n stp x6, x7, [%0, 48]\n"
		"stp x8, x9, [%0, 64]\n stp x10, x11, [%0, 80]\n stp x12, x13, [%0, 96]\n stp x14, x15, [%0, 112]\n"
		"stp x16, x17, [%0, 128]\n stp x18, x19, [%0, 144]\n stp x20, x21, [%0, 160]\n stp x22, x23, [%0, 176]\n"
		"stp x24, x25, [%0, 192]\n stp x26, x27, [%0, 208]\n stp x28, x29, [%0, 224]\n str x30, [%0, 240]\n"
		"mov x9, sp\n str x9, [%0, 248]\n adr x9, .\n str x9, [%0, 256]\n"
		:: "r"(regs) : "x9", "memory");
	uint64_t sp = regs[31];
#else
	__asm__ volatile(
		"mov %%rax, (%0)\n mov %%rdx, 8(%0)\n mov %%rcx, 16(%0)\n mov %%rbx, 24(%0)\n mov %%rsi, 32(%0)\n"
		"mov %%rdi, 40(%0)\n mov %%rbp, 48(%0)\n mov %%rsp, 56(%0)\n mov %%r8, 64(%0)\n mov %%r9, 72(%0)\n"
		"mov %%r10, 80(%0)\n mov %%r11, 88(%0)\n mov %%r12, 96(%0)\n mov %%r13, 104(%0)\n mov %%r14, 112(%0)\n"
		"mov %%r15, 120(%0)\n lea 0(%%rip), %%rax\n mov %%rax, 128(%0)\n"
		:: "r"(regs) : "rax", "memory");
	uint64_t sp = regs[7];
#endif
	uint64_t n = top - sp, count = depth;
	put(regs, sizeof regs);
	put(&count, 8);
	for (int i = depth - 1; i >= 0; i--) put(&chain[i], 8);
	put(&n, 8);
	put((void *)sp, n);
	LEAVE;
}

static NOINLINE void step(int n);

static NOINLINE void small(int n) {
	ENTER;
	step(n - 1);
	sink++;
	LEAVE;
}

static NOINLINE void large(int n) {
	volatile char b[5000];
	ENTER;
	b[n] = n;
	step(n - 1);
	sink += b[n];
	LEAVE;
}

static NOINLINE void varied(int n) {
	ENTER;
	volatile char *p = alloca(16 + rnd() % 700);
	p[0] = n;
	step(n - 1);
	sink += p[0];
	LEAVE;
}

static NOINLINE void many(int n, double d) {
	ENTER;
	uint64_t a = rnd(), b = rnd(), c = rnd(), e = rnd(), f = rnd(), g = rnd(), h = rnd(), i = rnd(), j = rnd();
	double x = d * 1.5, y = d + 7;
	step(n - 1);
	sink += a ^ b ^ c ^ e ^ f ^ g ^ h ^ i ^ j ^ (uint64_t)(x * y);
	LEAVE;
}

static NOINLINE void aligned(int n) {
	__attribute__((aligned(128))) volatile char b[256];
	ENTER;
	b[n] = n;
	step(n - 1);
	sink += b[n];
	LEAVE;
}

static NOINLINE void shrink(int n) {
	ENTER;
	if (n > 3) {
		uint64_t a = rnd(), b = rnd();
		step(n - 1);
		sink += a * b;
	} else
		dump();
	LEAVE;
}

static NOINLINE void step(int n) {
	ENTER;
	if (n <= 0 || depth > MAX - 4)
		dump();
	else
		switch (rnd() % 6) {
		case 0: small(n); break;
		case 1: large(n); break;
		case 2: varied(n); break;
		case 3: many(n, n); break;
		case 4: aligned(n); break;
		default: shrink(n);
		}
	sink++;
	LEAVE;
}

static NOINLINE void run(int times) {
	ENTER;
	while (times-- > 0) step(rnd() % 24);
	LEAVE;
}

static uint64_t number(char **p) {
	uint64_t v = 0;
	for (;; (*p)++)
		if (**p >= '0' && **p <= '9') v = v << 4 | (**p - '0');
		else if (**p >= 'a' && **p <= 'f') v = v << 4 | (**p - 'a' + 10);
		else return v;
}

static char maps[1 << 16];

int main(int argc, char **argv) {
	out = 1;
	int f = open("/proc/self/maps", O_RDONLY);
	uint64_t n = 0;
	for (ssize_t r; (r = read(f, maps + n, sizeof maps - 1 - n)) > 0;) n += r;
	put(&n, 8);
	put(maps, n);
	uint64_t here = (uint64_t)__builtin_frame_address(0);
	for (char *l = maps; *l;) {
		uint64_t from = number(&l);
		l += *l == '-';
		uint64_t to = number(&l);
		if (from <= here && here < to) top = to;
		while (*l && *l++ != '\n')
			;
	}
	ENTER;
	run(atoi(argv[argc > 1]));
	return 0;
}

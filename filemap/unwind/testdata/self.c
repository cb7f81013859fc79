// A program of arm64 that writes its own stacks: at many depths and shapes of
// frames it copies its registers and its stack, and the chain of callers that it
// has noted itself. Each record is: registers (x0..x30, sp, pc), how many callers,
// the callers' return addresses (innermost first), how many bytes of stack, the
// bytes.
#include <alloca.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define MAX 64
static __thread uint64_t chain[MAX];
static __thread int depth;
static __thread uint64_t top;
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
	static __thread uint64_t regs[33];
	ENTER;
#ifdef __aarch64__
	__asm__ volatile(
		"stp x0, x1, [%0]\n stp x2, x3, [%0, 16]\n stp x4, x5, [%0, 32]\n stp x6, x7, [%0, 48]\n"
		"stp x8, x9, [%0, 64]\n stp x10, x11, [%0, 80]\n stp x12, x13, [%0, 96]\n stp x14, x15, [%0, 112]\n"
		"stp x16, x17, [%0, 128]\n stp x18, x19, [%0, 144]\n stp x20, x21, [%0, 160]\n stp x22, x23, [%0, 176]\n"
		"stp x24, x25, [%0, 192]\n stp x26, x27, [%0, 208]\n stp x28, x29, [%0, 224]\n str x30, [%0, 240]\n"
		"mov x9, sp\n str x9, [%0, 248]\n adr x9, .\n str x9, [%0, 256]\n"
		:: "r"(regs) : "x9", "memory");
#endif
	uint64_t sp = regs[31], n = top - sp, count = depth;
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

int main(int argc, char **argv) {
	out = 1;
	char maps[1 << 16];
	int f = open("/proc/self/maps", O_RDONLY);
	uint64_t n = 0;
	for (ssize_t r; (r = read(f, maps + n, sizeof maps - n)) > 0;) n += r;
	put(&n, 8);
	put(maps, n);
	maps[n < sizeof maps ? n : sizeof maps - 1] = 0;
	uint64_t here = (uint64_t)__builtin_frame_address(0);
	for (char *l = maps; l; l = strchr(l, '\n')) {
		l += *l == '\n';
		char *end;
		uint64_t from = strtoull(l, &end, 16), to = *end == '-' ? strtoull(end + 1, &end, 16) : 0;
		if (from <= here && here < to) top = to;
	}
	ENTER;
	run(argc > 1 ? atoi(argv[1]) : 100);
	return 0;
}

// Calls of futex with a frame of one's choice for a caller.
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// call calls futex with a frame for a caller: the kernel follows the frame pointer.
static __attribute__((noinline)) void call(uintptr_t *frame, long tag)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	register long r9 __asm__("r9") = tag;
	long ret;
	__asm__ volatile("mov %%rbp, %%rbx; mov %[f], %%rbp; syscall; mov %%rbx, %%rbp"
		: "=a"(ret) : "a"((long)SYS_futex), "D"(frame), "S"(129L /* FUTEX_WAKE_PRIVATE */), "d"(0L), "r"(r10), "r"(r8), "r"(r9), [f] "r"(frame)
		: "rbx", "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = SYS_futex;
	register long x0 __asm__("x0") = (long)frame;
	register long x1 __asm__("x1") = 129 /* FUTEX_WAKE_PRIVATE */;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;
	register long x5 __asm__("x5") = tag;
	__asm__ volatile("mov x19, x29; mov x29, %[f]; svc #0; mov x29, x19"
		: "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), [f] "r"(frame) : "x19", "memory");
#endif
}

static int there(char *code)
{
	unsigned char resident;
	return mincore(code, 4096, &resident) == 0;
}

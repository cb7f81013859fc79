// A function of assembly without a size, and functions that only this file sees.
int plain(void);
int framed(void);
__asm__(".text\n"
	".globl plain\n.type plain,%function\nplain: nop\n nop\n ret\n"
	".globl framed\n.type framed,%function\nframed:\n.cfi_startproc\n nop\n nop\n ret\n.cfi_endproc\n");

__attribute__((noinline)) static int hidden(int n)
{
	__asm__ volatile("nop\n\tnop" : "+r"(n));
	return n;
}

int main(int argc, char **argv) { return plain() + framed() + hidden(argc); }

#include "textflag.h"

TEXT ·dump(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ regs+0(FP), AX
	MOVQ BP, 48(AX)
	MOVQ SP, 56(AX)
	LEAQ ·dump(SB), CX
	MOVQ CX, 128(AX)
	RET

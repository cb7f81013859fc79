#include "textflag.h"

TEXT ·dump(SB), NOSPLIT|NOFRAME, $0-8
	MOVD regs+0(FP), R0
	MOVD R29, 232(R0)
	MOVD R30, 240(R0)
	MOVD RSP, R1
	MOVD R1, 248(R0)
	MOVD $·dump(SB), R1
	MOVD R1, 256(R0)
	RET

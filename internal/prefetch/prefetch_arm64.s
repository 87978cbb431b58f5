#include "textflag.h"

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func Lines(p0, p1, p2, p3, p4, p5, p6 unsafe.Pointer)
TEXT ·Lines(SB), NOSPLIT, $0-56
	MOVD p0+0(FP), R0
	MOVD p1+8(FP), R1
	MOVD p2+16(FP), R2
	MOVD p3+24(FP), R3
	MOVD p4+32(FP), R4
	MOVD p5+40(FP), R5
	MOVD p6+48(FP), R6
	PRFM (R0), PLDL1KEEP
	PRFM (R1), PLDL1KEEP
	PRFM (R2), PLDL1KEEP
	PRFM (R3), PLDL1KEEP
	PRFM (R4), PLDL1KEEP
	PRFM (R5), PLDL1KEEP
	PRFM (R6), PLDL1KEEP
	RET

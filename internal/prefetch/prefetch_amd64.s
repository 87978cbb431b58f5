#include "textflag.h"

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func Lines(p0, p1, p2, p3, p4, p5, p6 unsafe.Pointer)
TEXT ·Lines(SB), NOSPLIT, $0-56
	MOVQ p0+0(FP), AX
	MOVQ p1+8(FP), BX
	MOVQ p2+16(FP), CX
	MOVQ p3+24(FP), DX
	MOVQ p4+32(FP), SI
	MOVQ p5+40(FP), DI
	MOVQ p6+48(FP), R8
	PREFETCHT0 (AX)
	PREFETCHT0 (BX)
	PREFETCHT0 (CX)
	PREFETCHT0 (DX)
	PREFETCHT0 (SI)
	PREFETCHT0 (DI)
	PREFETCHT0 (R8)
	RET

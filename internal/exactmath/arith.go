package exactmath

import "math/bits"

// mod is the remainder of the mathematical floor division, 0 … b-1.
func mod(a, b int64) int64 {
	if a %= b; a < 0 {
		a += b
	}
	return a
}

// Split returns the generation of length l that t lies in, and how far into it.
func Split(t, l int64) (generation, elapsed int64) {
	elapsed = mod(t, l)
	return t/l - btoi(t%l < 0), elapsed
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// ceilDiv is ⌈a/b⌉ for a ≥ 0, b > 0.
func ceilDiv(a, b int64) int64 { return a/b + btoi(a%b > 0) }

// mulCapped is min(a×b, most) for a, b ≥ 0.
func mulCapped(a, b uint64, most int64) int64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 && lo < uint64(most) {
		return int64(lo)
	}
	return most
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

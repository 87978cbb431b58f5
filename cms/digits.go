package cms

// Two cells of 4 bits share a byte. Below digits² it is two counts, its digits in base
// 12, of which the first cell's is the lower one. From there on it is one count that
// both cells share: a count that is no digit any more joins its cell with the one
// beside it.
const (
	digits = 12
	beyond = digits*digits - digits // a joint byte less its count
)

// digitCounts are what a byte holds, for the first cell and for the second.
var digitCounts = func() (counts [2][256]uint8) {
	for b := range 256 {
		counts[0][b], counts[1][b] = uint8(b%digits), uint8(b/digits)
		if b >= digits*digits {
			counts[0][b], counts[1][b] = uint8(b-beyond), uint8(b-beyond)
		}
	}
	return counts
}()

// digitUnits are what a unit of the first cell adds to a byte, and one of the second.
var digitUnits = [2]uint64{1, digits}

// countDigit returns what a word holds in a hash's lane.
func countDigit(word, h uint64) uint64 { return uint64(digitCounts[h>>2&1][uint8(word>>(h&56))]) }

// liftDigit raises what a word holds in a hash's lane to c or more.
func liftDigit(word *uint64, h, c uint64) {
	at := h & 56
	switch count := countDigit(*word, h); {
	case count >= c:
	case c < digits:
		*word += (c - count) * digitUnits[h>>2&1] << at
	default: // a lower count is in a byte that is two digits, or joint: below that of c in either case
		*word += (beyond + c - *word>>at&255) << at
	}
}

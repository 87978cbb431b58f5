package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The encoding is a header of 16 bytes and the words, all little-endian:
//
//	0  "blm" and the version, 1
//	4  probes, three zero bytes
//	8  bytes of bits that follow, 8 bytes
const (
	magic      = "blm\x01"
	headerSize = 16
)

// ErrEncoding is wrapped by the errors of [Filter.UnmarshalBinary].
var ErrEncoding = errors.New("not an encoded filter")

// AppendBinary appends the encoded filter to b. It never fails for a filter made by
// [New], [NewBytes] or [Over].
func (f *Filter) AppendBinary(b []byte) ([]byte, error) {
	if f.probes == 0 {
		return b, errors.New("bloom: the zero Filter has no encoding")
	}
	b = append(b, magic...)
	b = append(b, byte(f.probes), 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(8*len(f.words)))
	for _, w := range f.words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b, nil
}

// MarshalBinary returns the encoded filter.
func (f *Filter) MarshalBinary() ([]byte, error) {
	return f.AppendBinary(make([]byte, 0, headerSize+8*len(f.words)))
}

// UnmarshalBinary replaces the filter by the one encoded in b, dimensions included.
// It allocates no more than b is long. On an error the filter is unchanged.
func (f *Filter) UnmarshalBinary(b []byte) error {
	if len(b) < headerSize || string(b[:4]) != magic || b[5]|b[6]|b[7] != 0 {
		return fmt.Errorf("bloom: header % x: %w", b[:min(len(b), headerSize)], ErrEncoding)
	}
	size, bits := binary.LittleEndian.Uint64(b[8:]), b[headerSize:]
	if size > math.MaxInt || int(size) != len(bits) {
		return fmt.Errorf("bloom: %d bytes of bits, must be %d: %w", len(bits), size, ErrEncoding)
	}
	if len(bits)%8 != 0 {
		return fmt.Errorf("bloom: %d bytes of bits, must be whole words: %w", len(bits), ErrEncoding)
	}
	words := make([]uint64, len(bits)/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(bits[8*i:])
	}
	read, err := Over(words, int(b[4]))
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrEncoding)
	}
	*f = *read
	return nil
}

package cms

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The encoding is a header of 16 bytes and the words, all little-endian:
//
//	0  "cms" and the version, 1
//	4  bits a cell, depth, two zero bytes
//	8  width, 8 bytes
const (
	magic      = "cms\x01"
	headerSize = 16
)

// ErrEncoding is wrapped by the errors of [Sketch.UnmarshalBinary].
var ErrEncoding = errors.New("not an encoded sketch")

// AppendBinary appends the encoded sketch to b. It never fails for a sketch made by
// [New].
func (s *Sketch) AppendBinary(b []byte) ([]byte, error) {
	if s.depth == 0 {
		return b, errors.New("cms: the zero Sketch has no encoding")
	}
	b = append(b, magic...)
	b = append(b, byte(s.CellBits()), byte(s.depth), 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Width()))
	for _, w := range s.words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b, nil
}

// MarshalBinary returns the encoded sketch.
func (s *Sketch) MarshalBinary() ([]byte, error) {
	return s.AppendBinary(make([]byte, 0, headerSize+8*len(s.words)))
}

// UnmarshalBinary replaces the sketch by the one encoded in b, dimensions included.
// It allocates no more than b is long. On an error the sketch is unchanged.
func (s *Sketch) UnmarshalBinary(b []byte) error {
	if len(b) < headerSize || string(b[:4]) != magic || b[6]|b[7] != 0 {
		return fmt.Errorf("cms: header % x: %w", b[:min(len(b), headerSize)], ErrEncoding)
	}
	depth, cellBits, rawWidth := int(b[5]), int(b[4]), binary.LittleEndian.Uint64(b[8:])
	if rawWidth > math.MaxInt32 {
		rawWidth = 0 // refused below, on machines of any int
	}
	width := int(rawWidth)
	n, err := Words(depth, width, cellBits)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrEncoding)
	}
	cells := b[headerSize:]
	if len(cells) != 8*n {
		return fmt.Errorf("cms: %d bytes of cells, must be %d: %w", len(cells), 8*n, ErrEncoding)
	}
	words := make([]uint64, n)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(cells[8*i:])
	}
	read, err := Over(words, depth, width, cellBits)
	if err != nil {
		return err
	}
	*s = *read
	return nil
}

package cms

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	_ encoding.BinaryAppender    = (*Sketch)(nil)
	_ encoding.BinaryMarshaler   = (*Sketch)(nil)
	_ encoding.BinaryUnmarshaler = (*Sketch)(nil)
)

func filled(t testing.TB, depth, width, cellBits int) *Sketch {
	s := newSketch(t, depth, width, cellBits)
	for i := range uint64(100) {
		s.Add(seeded(i, 1), uint32(i))
	}
	return s
}

// The bytes are the same on every machine and in every version that reads this one's.
func TestEncodingIsPinned(t *testing.T) {
	s := newSketch(t, 2, 8, 16)
	// The first row's word is chosen by the upper 32 bits, the second's by the lower,
	// whose lowest choose the lane: the last here, and the first.
	s.Raise(math.MaxUint32, 0x0102)
	s.Raise(math.MaxUint32<<32, 0xa0b0)
	b, err := s.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, "636d7301"+"10020000"+"0800000000000000"+ // header
		"0000000000000201"+"b0a0000000000000"+ // row 0
		"b0a0000000000000"+"0000000000000201", hex.EncodeToString(b)) // row 1

	s = newSketch(t, 1, 16, 4)
	s.Raise(0, 1)
	s.Raise(math.MaxUint64, 15) // does not fit the second of two lanes: they are joined
	b, err = s.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, "636d7301"+"04010000"+"1000000000000000"+"0100000000000093", hex.EncodeToString(b))
}

func TestDecodedSketchIsTheSame(t *testing.T) {
	for _, cellBits := range allCellBits {
		for _, depth := range allDepths {
			for _, width := range oddWidths {
				s := filled(t, depth, width, cellBits)
				b, err := s.MarshalBinary()
				require.NoError(t, err)
				read := *filled(t, 2, 9, 8) // replaced, dimensions included
				require.NoError(t, read.UnmarshalBinary(b))
				require.Equal(t, *s, read)
				appended, err := read.AppendBinary([]byte("before"))
				require.NoError(t, err)
				require.Equal(t, "before"+string(b), string(appended))

				b[len(b)-1] ^= 1 // the sketch does not keep the caller's memory
				require.Equal(t, *s, read)
			}
		}
	}
}

func TestZeroSketchHasNoEncoding(t *testing.T) {
	_, err := new(Sketch).MarshalBinary()
	require.EqualError(t, err, "cms: the zero Sketch has no encoding")
}

func TestBadEncodingIsRefusedAndChangesNothing(t *testing.T) {
	good, err := filled(t, 3, 5, 16).MarshalBinary()
	require.NoError(t, err)
	s := filled(t, 2, 9, 8)
	before, _ := s.MarshalBinary()
	refused := func(b []byte, what string, args ...any) {
		t.Helper()
		require.ErrorIs(t, s.UnmarshalBinary(b), ErrEncoding, append([]any{what}, args...)...)
		after, _ := s.MarshalBinary()
		require.Equal(t, before, after, append([]any{what}, args...)...)
	}
	for n := range good {
		refused(good[:n], "%d bytes", n)
	}
	refused(append(slices.Clone(good), 0), "a byte too long")
	refused(append(slices.Clone(good), make([]byte, 8)...), "a word too long")
	for i := range headerSize {
		b := slices.Clone(good)
		b[i] ^= 0xff
		refused(b, "byte %d flipped", i)
	}
	for name, header := range map[string]struct {
		cellBits, depth byte
		width           uint64
	}{
		"no rows":               {16, 0, 8},
		"too many rows":         {16, 33, 8},
		"no cells":              {16, 3, 0},
		"too wide":              {16, 3, 1<<28 + 4},
		"far too wide":          {16, 3, math.MaxUint64},
		"wide and deep":         {4, 32, 1 << 31}, // no bytes at all, in 32-bit arithmetic
		"cells of no bits":      {0, 3, 8},
		"cells of a bit":        {1, 3, 64},
		"cells of 64 bits":      {64, 3, 8},
		"width of another size": {16, 3, 12},
		"no whole words":        {16, 3, 7},
	} {
		b := append([]byte(magic), header.cellBits, header.depth, 0, 0)
		b = binary.LittleEndian.AppendUint64(b, header.width)
		refused(b, "%s", name)
		refused(append(b, make([]byte, 256)...), "%s, with cells", name)
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	for _, cellBits := range allCellBits {
		b, err := filled(f, 2, 17, cellBits).MarshalBinary()
		require.NoError(f, err)
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Add(append([]byte(magic), 4, 32, 0, 0, 255, 255, 255, 127, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Sketch
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		err := s.UnmarshalBinary(b)
		runtime.ReadMemStats(&m1)
		require.Less(t, m1.TotalAlloc-m0.TotalAlloc, uint64(2*len(b)+1<<16), "allocated more than was given")
		if err != nil {
			require.ErrorIs(t, err, ErrEncoding)
			require.Equal(t, Sketch{}, s)
			return
		}
		again, err := s.MarshalBinary()
		require.NoError(t, err)
		require.True(t, bytes.Equal(b, again), "decoded and encoded: %x, was %x", again, b)
		require.LessOrEqual(t, s.Estimate(1), s.Add(1, 1))
	})
}

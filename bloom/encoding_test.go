package bloom

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	_ encoding.BinaryAppender    = (*Filter)(nil)
	_ encoding.BinaryMarshaler   = (*Filter)(nil)
	_ encoding.BinaryUnmarshaler = (*Filter)(nil)
)

func filled(t testing.TB, blocks, probes int) *Filter {
	f := newFilter(t, blocks*BlockBytes, probes)
	filledTo(f, 0.4, rand.New(rand.NewPCG(uint64(blocks), uint64(probes))))
	return f
}

// The bytes are the same on every machine and in every version that reads this one's:
// the layout first, then the place of a key's bits.
func TestEncodingIsPinned(t *testing.T) {
	f, err := Over([]uint64{0x0102030405060708, 0, 0, 0, 0, 0, 0, 1 << 63}, 5)
	require.NoError(t, err)
	b, err := f.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, "626c6d01"+"05000000"+"4000000000000000"+
		"0807060504030201"+strings.Repeat("00", 48)+"0000000000000080", hex.EncodeToString(b))

	f = newFilter(t, 2*BlockBytes, 9) // more probes than one draw holds
	f.Add(0x0123456789abcdef)
	b, err = f.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, "1000000000000000000000000000000000000020000000200800000000042000"+
		"0000000000000040000008000000000000000000000000000800000000000000"+strings.Repeat("00", BlockBytes), hex.EncodeToString(b[headerSize:]))
}

func TestDecodedFilterIsTheSame(t *testing.T) {
	for _, blocks := range []int{1, 2, 100} {
		for _, probes := range []int{1, 7, MaxProbes} {
			f := filled(t, blocks, probes)
			b, err := f.MarshalBinary()
			require.NoError(t, err)
			for _, read := range []*Filter{{}, filled(t, 3, 4)} { // replaced, dimensions included
				require.NoError(t, read.UnmarshalBinary(b))
				require.Equal(t, f, read)
				require.Equal(t, f.Distinct(), read.Distinct())
				appended, err := read.AppendBinary([]byte("before"))
				require.NoError(t, err)
				require.Equal(t, "before"+string(b), string(appended))

				last := len(b) - 1
				b[last] ^= 1 // the filter does not keep the caller's memory
				require.Equal(t, f, read)
				b[last] ^= 1

				read.Clear() // its two views of the bits are of one memory
				require.Zero(t, read.FalsePositiveRate())
			}
		}
	}
}

func TestZeroFilterHasNoEncoding(t *testing.T) {
	_, err := new(Filter).MarshalBinary()
	require.EqualError(t, err, "bloom: the zero Filter has no encoding")
}

func TestBadEncodingIsRefusedAndChangesNothing(t *testing.T) {
	good, err := filled(t, 2, 5).MarshalBinary()
	require.NoError(t, err)
	f := filled(t, 3, 4)
	before, _ := f.MarshalBinary()
	refused := func(b []byte, what string, args ...any) {
		t.Helper()
		require.ErrorIs(t, f.UnmarshalBinary(b), ErrEncoding, append([]any{what}, args...)...)
		after, _ := f.MarshalBinary()
		require.Equal(t, before, after, append([]any{what}, args...)...)
	}
	for n := range good {
		refused(good[:n], "%d bytes", n)
	}
	refused(append(slices.Clone(good), 0), "a byte too long")
	refused(append(slices.Clone(good), make([]byte, BlockBytes)...), "a block too long")
	for i := range headerSize {
		b := slices.Clone(good)
		b[i] ^= 0xff
		refused(b, "byte %d flipped", i)
	}
	for _, tt := range []struct {
		probes byte
		size   uint64
		bytes  int
	}{
		{0, 64, 64}, {29, 64, 64}, // probes
		{5, 0, 0}, {5, 8, 8}, {5, 63, 63}, {5, 72, 72}, // not whole blocks
		{5, 128, 64}, {5, 64, 128}, {5, math.MaxUint64, 64}, {5, 1<<63 + 64, 64}, {5, 1<<32 + 64, 64}, // other sizes
	} {
		b := append([]byte(magic), tt.probes, 0, 0, 0)
		b = binary.LittleEndian.AppendUint64(b, tt.size)
		refused(append(b, make([]byte, tt.bytes)...), "%+v", tt)
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	for _, probes := range []int{1, 9, MaxProbes} {
		b, err := filled(f, 2, probes).MarshalBinary()
		require.NoError(f, err)
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Add(append([]byte(magic), 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Filter
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		err := s.UnmarshalBinary(b)
		runtime.ReadMemStats(&m1)
		require.Less(t, m1.TotalAlloc-m0.TotalAlloc, uint64(2*len(b)+1<<16), "allocated more than was given")
		if err != nil {
			require.ErrorIs(t, err, ErrEncoding)
			require.Equal(t, Filter{}, s)
			return
		}
		again, err := s.MarshalBinary()
		require.NoError(t, err)
		require.True(t, bytes.Equal(b, again), "decoded and encoded: %x, was %x", again, b)
		require.False(t, s.Distinct() < 0 || s.FalsePositiveRate() > 1)
		require.Equal(t, s.Test(1), s.TestAndAdd(1))
	})
}

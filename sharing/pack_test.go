package sharing

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is told is what has risen, whatever the cells' width.
func TestRecordsTellWhatHasRisen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, bits := range []int{8, 16, 32} {
		l := lanes{bits}
		for range 200 {
			from, to := make([]uint64, 20), make([]uint64, 20)
			want := map[int]uint32{}
			for cell := range 20 * l.perWord() {
				shift := cell % l.perWord() * bits
				was := r.Uint64() & l.max() >> r.IntN(bits)
				is := was
				if r.IntN(4) == 0 {
					is += (r.Uint64() & l.max() >> r.IntN(bits)) % (l.max() - was + 1)
				}
				from[cell/l.perWord()] |= was << shift
				to[cell/l.perWord()] |= is << shift
				if is > was {
					want[cell] = uint32(is - was)
				}
			}
			p := newPacker(l, 1<<30)
			p.risen(0, from[:7], to[:7])
			p.risen(7, from[7:], to[7:])
			record := slices.Concat(p.records()...)
			got := map[int]uint32{}
			for c, err := range risen(record, 20*l.perWord()) {
				require.NoError(t, err)
				got[c.cell] += c.n
			}
			require.Equal(t, want, got)
		}
	}
	require.Equal(t, []byte{2, 2, 2*62 + 1, 3}, appendCell(appendCell(appendCell(nil, 1, 1), 1, 1), 62, 5), "a byte, mostly")
}

// Cells are added to and raised one by one, and do not run into their neighbours.
func TestCellsRise(t *testing.T) {
	words := []uint64{0, 0x05_02}
	lanes{8}.add(words, 9, 3)
	lanes{8}.add(words, 15, 300)
	require.Equal(t, []uint64{0, 0xff00_0000_0000_0802}, words)
	lanes{8}.raise(words, []uint64{0x07 << 56, 0x01_09_03})
	require.Equal(t, []uint64{0x07 << 56, 0xff00_0000_0001_0903}, words)
	lanes{16}.add(words, 7, 0x100)
	require.EqualValues(t, uint64(0xffff)<<48|0x0001_0903, words[1])
	lanes{32}.raise(words, []uint64{0, 0x0001_0904})
	require.EqualValues(t, uint64(0xffff)<<48|0x0001_0904, words[1])
}

// What is summed up and taken away again is what it was, unless a cell was full.
func TestCellsAddUp(t *testing.T) {
	words := []uint64{0x01_fe_03}
	lanes{8}.sum(words, []uint64{0x80<<56 | 0x02_02_00})
	require.Equal(t, []uint64{0x80<<56 | 0x03_ff_03}, words)
	lanes{8}.less(words, []uint64{0x80<<56 | 0x02_02_04})
	require.Equal(t, []uint64{0x01_ff_00}, words, "a full cell may have held more; none is below 0")
	lanes{8}.sub(words, 2, 1)
	lanes{8}.sub(words, 1, 1)
	require.Equal(t, []uint64{0x00_ff_00}, words)
}

// FuzzRisen reads anything without a panic, and nothing out of bounds.
func FuzzRisen(f *testing.F) {
	f.Add([]byte{2, 2, 125, 3})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, records []byte) {
		for c, err := range risen(records, 1000) {
			if err != nil {
				require.Equal(t, errRecord, err)
				continue
			}
			require.True(t, c.cell >= 0 && c.cell < 1000 && c.n > 0)
		}
	})
}

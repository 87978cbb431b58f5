package savestate

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

type testHeader struct {
	A int64
	B [2]uint32
}

func written(t *testing.T, words []uint64) []byte {
	var b bytes.Buffer
	w := NewWriter(&b, "magic", 7, &testHeader{-3, [2]uint32{1, 2}})
	for _, word := range words {
		w.Words(word)
		w.Flush()
	}
	n, err := w.End()
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	return b.Bytes()
}

// readWords reads so many words.
func readWords(b []byte, words int) (h testHeader, got []uint64, err error) {
	r := NewReader(bytes.NewReader(b))
	got = make([]uint64, words)
	if err = r.Header("magic", 7, &h); err != nil {
		return h, nil, err
	}
	if got[0], err = r.Word(); err != nil {
		return h, nil, err
	}
	if err = r.Words(got[1:]); err != nil {
		return h, nil, err
	}
	return h, got, r.End()
}

func TestRoundTrip(t *testing.T) {
	words := make([]uint64, 5000) // more than one chunk holds
	for i := range words {
		words[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	h, got, err := readWords(written(t, words), len(words))
	require.NoError(t, err)
	require.Equal(t, testHeader{-3, [2]uint32{1, 2}}, h)
	require.Equal(t, words, got)
}

// Every damaged byte, every end and every byte more is noticed.
func TestDamage(t *testing.T) {
	words := []uint64{1, 2, 3}
	whole := written(t, words)
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x10
		_, _, err := readWords(damaged, len(words))
		require.ErrorIs(t, err, Err, "byte %d", i)
		_, _, err = readWords(whole[:i], len(words))
		require.ErrorIs(t, err, Err, "%d bytes", i)
	}
	_, _, err := readWords(append(bytes.Clone(whole), 0), len(words))
	require.ErrorContains(t, err, "goes on after")
	_, _, err = readWords(append([]byte("other"), whole[5:]...), len(words))
	require.ErrorContains(t, err, "none: begins with 6f 74 68 65 72")
	other := bytes.Clone(whole)
	other[5] = 8
	_, _, err = readWords(other, len(words))
	require.ErrorIs(t, err, ErrMismatch)
	require.ErrorContains(t, err, "version 8, must be 7")
}

func TestErrorsOfReaderAndWriter(t *testing.T) {
	broken := errors.New("broken")
	var h testHeader
	err := NewReader(iotest.ErrReader(broken)).Header("magic", 7, &h)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, Err)
	_, err = NewWriter(failing{broken}, "magic", 7, &h).End()
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

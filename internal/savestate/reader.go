package savestate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

var (
	// Err is wrapped by all errors of snapshots that cannot be restored.
	Err = errors.New("snapshot not restored")
	// ErrMismatch is wrapped by those of snapshots of something else, or of another
	// version.
	ErrMismatch = fmt.Errorf("%w: of another limiter", Err)
)

// Reader reads what a [Writer] wrote. Its errors wrap [Err], or are those of the
// io.Reader. It is not safe for concurrent use.
type Reader struct {
	r      io.Reader
	n      int64
	digest *xxhash.Digest
	buffer [8 << 10]byte
}

// NewReader returns a Reader.
func NewReader(r io.Reader) *Reader { return &Reader{r: r, digest: xxhash.New()} }

// Bytes returns the number of bytes read.
func (s *Reader) Bytes() int64 { return s.n }

// read returns the next n bytes, of the buffer at the most, until it is called again.
func (s *Reader) read(n int) ([]byte, error) {
	b := s.buffer[:n]
	read, err := io.ReadFull(s.r, b)
	s.n += int64(read)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%w: damaged: ends after %d bytes", Err, s.n)
	}
	if err != nil {
		return nil, err
	}
	s.digest.Write(b)
	return b, nil
}

// Header reads the header, a pointer to a struct of fixed size. It is to be called
// first.
func (s *Reader) Header(magic string, version byte, header any) error {
	b, err := s.read(len(magic) + 1 + binary.Size(header))
	if err != nil {
		return err
	}
	if string(b[:len(magic)]) != magic {
		return fmt.Errorf("%w: none: begins with % x", Err, b[:len(magic)])
	}
	if v := b[len(magic)]; v != version {
		return fmt.Errorf("%w: version %d, must be %d", ErrMismatch, v, version)
	}
	binary.Decode(b[len(magic)+1:], binary.LittleEndian, header) // has its size
	return s.sum()
}

// Word reads one word.
func (s *Reader) Word() (uint64, error) {
	b, err := s.read(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// Words fills words.
func (s *Reader) Words(words []uint64) error {
	for len(words) > 0 {
		b, err := s.read(min(8*len(words), len(s.buffer)))
		if err != nil {
			return err
		}
		for ; len(b) > 0; b, words = b[8:], words[1:] {
			words[0] = binary.LittleEndian.Uint64(b)
		}
	}
	return nil
}

// sum reads the sum of what was read before, sums left out.
func (s *Reader) sum() error {
	sum := s.digest.Sum64()
	before := *s.digest
	b, err := s.read(8)
	*s.digest = before
	if err == nil && binary.LittleEndian.Uint64(b) != sum {
		return fmt.Errorf("%w: damaged: wrong sum after %d bytes", Err, s.n-8)
	}
	return err
}

// End reads the last sum, which nothing is to follow.
func (s *Reader) End() error {
	if err := s.sum(); err != nil {
		return err
	}
	switch n, err := io.ReadFull(s.r, s.buffer[:1]); {
	case n > 0:
		return fmt.Errorf("%w: damaged: goes on after %d bytes", Err, s.n)
	case err != io.EOF:
		return err
	}
	return nil
}

// Package savestate writes snapshots of engines and restores them. [Writer] and
// [Reader] have the format: a header, words and sums. [Stages] say what the words mean.
//
// A snapshot holds, of each shard, its generations, table and state, and the same of a
// predecessor. Each shard is copied under its lock, and a decision counts before it
// releases that lock: so all units that were admitted before the snapshot began are in
// it. Peaks, denial caches, statistics, the audit and counts of other nodes are not.
//
// It is little-endian throughout:
//
//	magic    text of the format
//	version  byte
//	header   a struct of fixed size
//	sum      XXH64 of all before it, so that nothing is allocated for a damaged header
//	words    8 bytes each
//	sum      XXH64 of all before it but the first sum
package savestate

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"
)

// chunk is the bytes that are written at once.
const chunk = 256 << 10

// Writer writes a snapshot. It is not safe for concurrent use.
type Writer struct {
	to     *yieldingWriter
	buffer *bufio.Writer // keeps the first error
	digest *xxhash.Digest
	bytes  []byte // not yet in the buffer
}

// NewWriter returns a Writer that has written the header, a struct of fixed size.
func NewWriter(w io.Writer, magic string, version byte, header any) *Writer {
	to := &yieldingWriter{w: w}
	s := &Writer{to: to, buffer: bufio.NewWriterSize(to, chunk), digest: xxhash.New()}
	s.bytes = append(append(s.bytes, magic...), version)
	s.bytes, _ = binary.Append(s.bytes, binary.LittleEndian, header) // its size is fixed
	s.sum()
	return s
}

// Words writes words. They are in memory until the next call of Flush.
func (s *Writer) Words(words ...uint64) {
	for _, w := range words {
		s.bytes = binary.LittleEndian.AppendUint64(s.bytes, w)
	}
}

// Flush passes on what was written.
func (s *Writer) Flush() {
	s.digest.Write(s.bytes)
	s.buffer.Write(s.bytes)
	s.bytes = s.bytes[:0]
}

func (s *Writer) sum() {
	s.Flush()
	s.buffer.Write(binary.LittleEndian.AppendUint64(nil, s.digest.Sum64()))
}

// End writes the last sum, and returns the bytes written in all and the first error.
func (s *Writer) End() (int64, error) {
	s.sum()
	if err := s.buffer.Flush(); err != nil {
		return s.to.n, fmt.Errorf("writing a snapshot: %w", err)
	}
	return s.to.n, nil
}

// yieldingWriter counts bytes, and sleeps between chunks: where decisions keep all
// processors busy, one of them would wait for as long as the scheduler lets a goroutine
// run, 10 ms. runtime.Gosched does not do: the decision may be queued at a processor
// that is busy with another one, and only one that has nothing to do takes it from
// there.
type yieldingWriter struct {
	w io.Writer
	n int64
}

func (y *yieldingWriter) Write(b []byte) (int, error) {
	if y.n > 0 {
		time.Sleep(100 * time.Microsecond)
	}
	n, err := y.w.Write(b)
	y.n += int64(n)
	return n, err
}

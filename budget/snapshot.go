package budget

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/savefile"
)

// A snapshot is its name, the number of limits, the open holds in blocks, and the
// limiters' own snapshots in blocks. A block begins with the number of its bytes, and a
// list of them ends with a block of none. After the holds comes their sum.
const (
	snapshotName = "sketchlimit budget 1\n"
	holdBytes    = 16 // of a hold: hash of the key, units, limit
	mostBlock    = 1 << 16
)

// WriteTo writes a snapshot for [Budget.ReadFrom]: all units settled before WriteTo
// began, and all holds open then. Units settled while it writes may count twice. It
// locks one shard at a time.
//
// Like that of a Limiter, it holds no keys, but it holds the seed. Keep it secret.
func (b *Budget) WriteTo(w io.Writer) (int64, error) {
	out := &blocks{w: bufio.NewWriter(w)}
	out.write([]byte(snapshotName))
	out.write([]byte{byte(len(b.limits))})
	sum, open := xxhash.New(), make([]byte, 0, mostBlock)
	for i := range b.shards {
		open = b.appendOpen(open[:0], &b.shards[i])
		if len(open) > 0 {
			sum.Write(open)
			out.block(open)
		}
	}
	out.block(nil)
	out.write(binary.LittleEndian.AppendUint64(nil, sum.Sum64()))
	for i := range b.limits {
		if _, err := b.limits[i].WriteTo(out); err != nil && out.err == nil {
			out.err = err
		}
		out.block(nil)
	}
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return out.n, fmt.Errorf("budget: %w", out.err)
	}
	return out.n, nil
}

// appendOpen appends the open holds of a shard.
func (b *Budget) appendOpen(list []byte, s *shard) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for next := s.oldest; next > 0; next = b.holds[next-1].newer {
		o := &b.holds[next-1]
		list = binary.LittleEndian.AppendUint64(list, o.h)
		list = binary.LittleEndian.AppendUint32(list, o.units)
		list = binary.LittleEndian.AppendUint32(list, o.limit)
	}
	return list
}

// ReadFrom restores a snapshot, which must be all that r has, of a Budget with the same
// Limits into one that has held and counted nothing. No other method may be called
// meanwhile. Holds that were open when it was written are settled in full, now, as
// expired ones.
//
// On an error that wraps sketchlimit.ErrSnapshot the Budget is as it was. ReadFrom
// needs as much memory as the limiters while it runs.
func (b *Budget) ReadFrom(r io.Reader) (int64, error) {
	in := &blocks{r: bufio.NewReader(r)}
	limits, err := b.restore(in)
	if err != nil {
		closeAll(limits)
		return in.n, fmt.Errorf("budget: %w", err)
	}
	return in.n, nil
}

func (b *Budget) restore(in *blocks) (limits []limit, err error) {
	head := make([]byte, len(snapshotName)+1)
	in.read(head)
	switch {
	case in.err != nil:
		return nil, in.err
	case string(head[:len(snapshotName)]) != snapshotName:
		return nil, fmt.Errorf("%w: not of a budget", sketchlimit.ErrSnapshot)
	case int(head[len(snapshotName)]) != len(b.limits):
		return nil, fmt.Errorf("%w: of %d limits, must be of %d", sketchlimit.ErrSnapshotMismatch, head[len(snapshotName)], len(b.limits))
	}
	open, err := in.holds(len(b.holds))
	if err != nil {
		return nil, err
	}
	if limits, err = newLimits(b.config.Limits); err != nil {
		return nil, err
	}
	for i := range limits {
		if _, err := limits[i].ReadFrom(in); err != nil {
			return limits, fmt.Errorf("in Limits[%d]: %w", i, err)
		}
		if _, err := in.Read(make([]byte, 1)); err != io.EOF {
			return limits, fmt.Errorf("%w: Limits[%d]: longer than it says", sketchlimit.ErrSnapshot, i)
		}
		in.last = false
	}
	switch _, err := in.r.ReadByte(); {
	case err == nil:
		return limits, fmt.Errorf("%w: longer than it says", sketchlimit.ErrSnapshot)
	case err != io.EOF:
		return limits, err
	}
	if b.hasHeld() {
		return limits, fmt.Errorf("%w: the budget has held or counted units already", sketchlimit.ErrSnapshot)
	}
	closeAll(b.limits)
	b.use(limits)
	var m moment
	b.now(&m)
	for i := range b.shards {
		b.shards[i].follow(b, &m)
	}
	for ; len(open) > 0; open = open[holdBytes:] {
		h, units := binary.LittleEndian.Uint64(open), binary.LittleEndian.Uint32(open[8:])
		s, _ := b.shard(h)
		s.expired++
		b.count(s, h, int64(units), 0, 0, int(binary.LittleEndian.Uint32(open[12:])), &m)
	}
	return nil, nil
}

// hasHeld reports whether units have been held or counted, which a restored snapshot
// would forget.
func (b *Budget) hasHeld() bool {
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		has := s.open > 0 || s.settled > 0
		s.mu.Unlock()
		if has {
			return true
		}
	}
	return false
}

// holds reads at most most open holds.
func (in *blocks) holds(most int) (open []byte, err error) {
	sum := make([]byte, 8)
	block := make([]byte, mostBlock)
	for in.err == nil {
		n, err := in.Read(block)
		open = append(open, block[:n]...)
		if err == io.EOF {
			break
		}
		if len(open) > most*holdBytes {
			return nil, fmt.Errorf("%w: of more than %d open holds", sketchlimit.ErrSnapshotMismatch, most)
		}
	}
	in.last = false
	in.read(sum)
	if in.err != nil {
		return nil, in.err
	}
	if len(open)%holdBytes != 0 || binary.LittleEndian.Uint64(sum) != xxhash.Sum64(open) {
		return nil, fmt.Errorf("%w: damaged", sketchlimit.ErrSnapshot)
	}
	return open, nil
}

// Save writes a snapshot to a file of mode 0600, completely or not at all, see
// [Budget.WriteTo] and sketchlimit.Limiter.Save.
func (b *Budget) Save(path string) error {
	err := savefile.Write(path, func(w io.Writer) error {
		_, err := b.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("budget: saving a snapshot: %w", err)
	}
	return nil
}

// Load restores the snapshot of a file, see [Budget.ReadFrom]. Its error wraps
// [io/fs.ErrNotExist] if there is none.
func (b *Budget) Load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	defer f.Close()
	_, err = b.ReadFrom(f)
	return err
}

// blocks writes and reads lists of blocks, until the first error.
type blocks struct {
	w    *bufio.Writer
	r    *bufio.Reader
	n    int64 // bytes
	left int   // of the block that is read
	last bool  // the list has ended
	err  error
}

func (b *blocks) write(p []byte) {
	if b.err == nil {
		var n int
		n, b.err = b.w.Write(p)
		b.n += int64(n)
	}
}

// block writes a block. One of no bytes ends the list.
func (b *blocks) block(p []byte) {
	b.write(binary.LittleEndian.AppendUint32(nil, uint32(len(p))))
	b.write(p)
}

// Write implements [io.Writer]: each call is a block.
func (b *blocks) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), mostBlock)
		b.block(rest[:n])
		rest = rest[n:]
	}
	if b.err != nil {
		return 0, b.err
	}
	return len(p), nil
}

func (b *blocks) read(p []byte) (n int) {
	if b.err == nil {
		n, b.err = io.ReadFull(b.r, p)
		b.n += int64(n)
		if b.err == io.EOF || b.err == io.ErrUnexpectedEOF {
			b.err = fmt.Errorf("%w: damaged: ends after %d bytes", sketchlimit.ErrSnapshot, b.n)
		}
	}
	return n
}

// Read implements [io.Reader]: it ends where the list does.
func (b *blocks) Read(p []byte) (int, error) {
	for b.left == 0 && !b.last && b.err == nil {
		head := make([]byte, 4)
		b.read(head)
		n := binary.LittleEndian.Uint32(head)
		if b.left, b.last = int(n), n == 0; n > math.MaxInt32 && b.err == nil {
			b.err = fmt.Errorf("%w: a block of %d bytes", sketchlimit.ErrSnapshot, n)
		}
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.last {
		return 0, io.EOF
	}
	n := b.read(p[:min(len(p), b.left)])
	b.left -= n
	return n, b.err
}

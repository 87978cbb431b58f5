package accesslog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
)

const (
	parsers = 2
	blocks  = 2*parsers + 2 // in flight: all parsers at work, as many ahead of them, one being filled and one counted
)

// readFile reads one file. One goroutine decompresses, some parse, and the results are
// taken in order.
func (l *Log) readFile(ctx context.Context, f *File, add func(Batch) error) error {
	ctx, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	defer done.Wait()
	defer stop()
	free, ahead, order := make(chan *block, blocks), make(chan *block, blocks), make(chan *block, blocks)
	for range blocks {
		free <- newBlock()
	}
	for range parsers {
		done.Go(func() {
			p := newParser(f.plan)
			for ctx.Err() == nil {
				select {
				case b, more := <-ahead:
					if !more {
						return
					}
					p.parse(b)
					p.look(f)
					b.parsed <- struct{}{}
				case <-ctx.Done():
				}
			}
		})
	}
	go func() { // not waited for: it may hang in a read of a terminal
		defer close(order)
		defer close(ahead)
		l.fillAll(ctx, f, free, func(b *block) {
			order <- b // neither waits: there is room for all blocks
			ahead <- b
		})
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, more := <-order:
			if !more {
				if err := ctx.Err(); err != nil {
					return err
				}
				return f.end()
			}
			select {
			case <-b.parsed:
			case <-ctx.Done():
				return ctx.Err()
			}
			l.count(f, b)
			if err := add(b.batch); err != nil {
				return err
			}
			free <- b
		}
	}
}

// fillAll hands out all blocks of a file.
func (l *Log) fillAll(ctx context.Context, f *File, free <-chan *block, hand func(*block)) {
	h := f.held
	if h == nil {
		in, err := open(f.path, l.stdin, &l.read)
		if err != nil {
			f.CutOff = cutOff(err)
			return
		}
		h = &held{in: in, lines: &lines{in: in}}
	}
	defer h.in.close()
	var head []byte
	for number := 0; ; number++ {
		var b *block
		select {
		case b = <-free:
		case <-ctx.Done():
			return
		}
		err := h.err
		if h.block != nil {
			b, h.block = h.block, nil
		} else {
			err = h.lines.fill(b)
		}
		b.number = number
		if b.head = head; f.layout.format == W3C {
			if last := findFields(b.text, true); last != nil {
				head = bytes.Clone(last)
			}
		}
		hand(b)
		if err != nil {
			if err != io.EOF {
				f.CutOff = cutOff(err)
			}
			return
		}
	}
}

// count adds what was read of a block to the file's, and keeps times from going back.
func (l *Log) count(f *File, b *block) {
	if b.firstBad != nil && f.FirstBad == nil {
		f.FirstBad = b.firstBad
		f.FirstBad.Line += f.Lines
	}
	f.doubts.add(&b.doubts, f.Lines)
	f.Lines += b.lines
	f.Requests += len(b.batch.Requests)
	for reason, n := range b.skipped {
		if f.Skipped == nil {
			f.Skipped = make(map[string]int)
		}
		f.Skipped[reason] += n
	}
	f.hostNames += b.hostNames
	for value, n := range b.none {
		f.without(value, n)
	}
	f.oneClient(b.batch.Requests)
	for i := range b.batch.Requests {
		r := &b.batch.Requests[i]
		switch {
		case r.At > f.before:
			f.later++
		case r.At < f.before:
			f.back++
		}
		f.before = r.At
		if !l.begun {
			l.begun, l.oldest, l.newest = true, r.At, r.At
		}
		if r.At >= l.newest {
			if gap := r.At - l.newest; gap > f.gap {
				f.gap, f.gapAfter = gap, l.newest
			}
			l.newest = r.At
			continue
		}
		late := time.Duration(l.newest - r.At)
		f.Backward++
		f.BackwardBy = max(f.BackwardBy, late)
		if late > farBehind {
			f.Far++
		}
		if l.keepTimes {
			f.Sorted, l.oldest = true, min(l.oldest, r.At)
			continue
		}
		r.At = l.newest
	}
}

// oneClient keeps the client as long as there is only one.
func (f *File) oneClient(requests []whatif.Request) {
	if f.several {
		return
	}
	for i := range requests {
		if f.OneClient == "" {
			f.OneClient = string(requests[i].Key)
		} else if string(requests[i].Key) != f.OneClient {
			f.OneClient, f.several = "", true
			return
		}
	}
}

// farBehind is how late a line may be because of how servers write: when an answer
// ends, in blocks, by several processes.
const farBehind = time.Minute

// end completes what is told of the choice of fields and of the clients. It is an error
// if most lines have none, or if the log runs backwards.
func (f *File) end() error {
	f.Notes = append(f.Notes, f.doubts.tell(len(f.Notes) > 0)...)
	f.HostNames = f.hostNames
	if !f.plan.isClient() || f.Requests < 100 {
		f.OneClient = ""
	}
	if f.back >= fewest && f.back > 9*f.later {
		return Unreadable{fmt.Errorf("%s: its newest lines come first, which would all be taken as at one time: its lines must be put in order first", f.Name)}
	}
	most := 0
	for value, n := range f.none {
		f.NoAddress += n
		if n > most || n == most && value < f.MostOften {
			f.MostOften, most = value, n
		}
	}
	if f.NoAddress <= f.Requests {
		return nil
	}
	client := f.plan.key[slices.IndexFunc(f.plan.key, func(k keyPart) bool { return k.client })].Name
	text := fmt.Sprintf("%s: most lines have no address in %s, %d of %d", f.Name, printed(client), f.NoAddress, f.Lines)
	if f.MostOften != "" {
		text += ", but " + strconv.Quote(f.MostOften)
	}
	return Unreadable{fmt.Errorf("%s; --key names a field to take as it is, of %s", text, f.layout.names())}
}

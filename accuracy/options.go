package accuracy

import "fmt"

// Options are common to all measurements. The zero value is useful.
type Options struct {
	// WarmUp is the number of windows at the beginning that are replayed but not
	// counted, 0 …, less than the stream has. Default 0: all count.
	WarmUp int
	// Buckets bounds the length of Result.Series: 2 … 1e6; 0 = 120.
	Buckets int
	// SampleAbove is the number of requests above which [Sweep], [Ablate] and [Compare]
	// measure a [Sample] of the keys, with about so many requests at most, rather than
	// all of them: 1 …; 0 = 1e6. Where fewer than 1000 keys would be left, it is
	// more. [Replay] always measures all.
	SampleAbove int
	// Progress, if not nil, is called about every 64k requests and at the end, with
	// the requests done and the requests there are, from the goroutine that called
	// the measurement.
	Progress func(done, total int)
}

func (o *Options) check() error {
	if o.WarmUp < 0 {
		return fmt.Errorf("accuracy: warm-up of %d windows, must be 0 …", o.WarmUp)
	}
	or(&o.Buckets, 120)
	if o.Buckets < 2 || o.Buckets > 1e6 {
		return fmt.Errorf("accuracy: buckets %d, must be 2 … 1000000", o.Buckets)
	}
	or(&o.SampleAbove, defaultSampleAbove)
	if o.SampleAbove < 1 {
		return fmt.Errorf("accuracy: sample above %d requests, must be 1 …", o.SampleAbove)
	}
	return nil
}

const (
	defaultSampleAbove = 1_000_000 // requests
	progressRequests   = 64 << 10  // between two calls of Progress
)

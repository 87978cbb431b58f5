package accuracy

import (
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy/internal/windows"
)

// Bucket is a stretch of time of a replay. Its counts are requests.
type Bucket struct {
	Start          time.Time     `json:"start"`
	Length         time.Duration `json:"length_ns"` // the same for all buckets of a series
	Requests       uint64        `json:"requests"`
	Admitted       uint64        `json:"admitted"` // by the limiter
	Denied         uint64        `json:"denied"`
	OracleAdmitted uint64        `json:"oracle_admitted"` // by the lone oracle
	OracleDenied   uint64        `json:"oracle_denied"`
	FalseDenials   uint64        `json:"false_denials"`

	LightRequests     uint64 `json:"light_requests"` // as in [Verdict]
	LightFalseDenials uint64 `json:"light_false_denials"`
	// The false-denial rate of light keys that the limiter's audit has counted between
	// two looks, mean over so many, see [Result].
	LiveLightDenialRate float64 `json:"live_light_denial_rate"`
	Looks               int     `json:"looks"`
}

// series counts requests over time in a bounded number of buckets, of a length that
// doubles whenever they do not suffice: nobody knows beforehand how long a stream
// is. Windows begin where a bucket begins, or the other way round.
type series struct {
	most    int
	length  int64 // of a bucket, ns
	first   int64 // number of the first bucket since the Unix epoch
	buckets []Bucket
}

func newSeries(window time.Duration, most int) *series {
	length := int64(window)
	for length%2 == 0 && length > int64(window)/1024 {
		length /= 2
	}
	return &series{most: most, length: length}
}

// at is the bucket of a time. Times before the first bucket count in it.
func (s *series) at(now time.Time) *Bucket {
	ns := now.UnixNano()
	if len(s.buckets) == 0 {
		s.first = windows.FloorDiv(ns, s.length)
	}
	i := max(windows.FloorDiv(ns, s.length)-s.first, 0)
	for i >= int64(s.most) {
		s.double()
		i = windows.FloorDiv(ns, s.length) - s.first
	}
	for int64(len(s.buckets)) <= i {
		s.buckets = append(s.buckets, Bucket{})
	}
	return &s.buckets[i]
}

func (s *series) double() {
	first := windows.FloorDiv(s.first, 2)
	var merged []Bucket
	for i, b := range s.buckets {
		j := int(windows.FloorDiv(s.first+int64(i), 2) - first)
		if j == len(merged) {
			merged = append(merged, Bucket{})
		}
		merged[j].add(b)
	}
	s.first, s.length, s.buckets = first, 2*s.length, merged
}

func (b *Bucket) add(o Bucket) {
	b.Requests += o.Requests
	b.Admitted += o.Admitted
	b.Denied += o.Denied
	b.OracleAdmitted += o.OracleAdmitted
	b.OracleDenied += o.OracleDenied
	b.FalseDenials += o.FalseDenials
	b.LightRequests += o.LightRequests
	b.LightFalseDenials += o.LightFalseDenials
	b.look(o.LiveLightDenialRate, o.Looks)
}

// look adds looks that found a mean rate.
func (b *Bucket) look(rate float64, looks int) {
	if looks > 0 {
		b.LiveLightDenialRate += (rate - b.LiveLightDenialRate) * float64(looks) / float64(b.Looks+looks)
		b.Looks += looks
	}
}

// count puts the last batch and what trial and lone oracle made of it into the
// buckets.
func (s *series) count(batch []Request, t *trial, l *lone) {
	for i, r := range batch {
		b := s.at(r.Time)
		b.Requests++
		if t.outcomes[i]&admitted != 0 {
			b.Admitted++
		} else {
			b.Denied++
		}
		if l.outcomes[i]&admitted != 0 {
			b.OracleAdmitted++
		} else {
			b.OracleDenied++
		}
		if t.outcomes[i]&falselyDenied != 0 {
			b.FalseDenials++
		}
		if l.outcomes[i].has(ofLightKey) {
			b.LightRequests++
			if isFalseDenial(t.outcomes[i], l.outcomes[i]) {
				b.LightFalseDenials++
			}
		}
	}
	s.look(t)
}

// look puts what the limiter has stated lately into the buckets.
func (s *series) look(t *trial) {
	for _, look := range t.looks {
		s.at(look.at).look(look.rate, 1)
	}
	t.looks = t.looks[:0]
}

// all are the buckets with their times.
func (s *series) all() []Bucket {
	all := make([]Bucket, len(s.buckets))
	for i, b := range s.buckets {
		b.Start = time.Unix(0, (s.first+int64(i))*s.length).UTC()
		b.Length = time.Duration(s.length)
		all[i] = b
	}
	return all
}

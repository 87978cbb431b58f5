package exact

import (
	"sort"
	"time"
)

// SlidingLog admits n units while the units admitted during the last window, plus n,
// are at most limit: the exact sliding window, also called floating window. The
// window is half-open: a unit counts while its age is below window, and a unit of
// age exactly window counts no longer, so that limit units every window pass.
//
// RetryAfter is the age at which enough units have left the window. Times of a key
// do not run backwards: a time before its last admitted request is taken as the
// time of that request. Memory: 16 bytes for every distinct time of admission within
// the window, up to twice that while the log grows, and 32 a key and the map around
// them; a decision takes time in proportion to the logarithm of the log.
type SlidingLog struct {
	keyed[timeLog]
	window int64
}

// timeLog holds entries in the order of their times.
type timeLog struct {
	entries []logEntry
	before  int64 // units logged before the first entry
}

// logEntry carries the running sum, so that the units between any two entries are one
// subtraction, right even where the sum has wrapped around.
type logEntry struct {
	at    int64 // Unix ns
	total int64 // units logged up to and with this entry
}

// NewSlidingLog returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, for every key.
func NewSlidingLog(limit int, window time.Duration) (*SlidingLog, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	l := &SlidingLog{window: int64(window)}
	l.init(l, limit, 0, timeLog{})
	return l, nil
}

// at returns the part of the log that counts at t, and the time that t is taken as.
func (l *SlidingLog) at(s timeLog, t int64) (timeLog, int64) {
	n := len(s.entries)
	if n == 0 {
		return s, t
	}
	t = max(t, s.entries[n-1].at)
	i := sort.Search(n, func(i int) bool { return s.entries[i].at > t-l.window })
	if i > 0 {
		s.before = s.entries[i-1].total
	}
	s.entries = s.entries[i:]
	return s, t
}

func (s timeLog) total() int64 {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].total
	}
	return s.before
}

func (l *SlidingLog) wait(s timeLog, t, n int64) time.Duration {
	s, t = l.at(s, t)
	free := l.limit - n
	if s.total()-s.before <= free {
		return 0
	}
	i := sort.Search(len(s.entries), func(i int) bool { return s.total()-s.entries[i].total <= free })
	return time.Duration(s.entries[i].at + l.window - t)
}

func (l *SlidingLog) left(s timeLog, t int64) (int64, time.Duration) {
	s, t = l.at(s, t)
	n := len(s.entries)
	if n == 0 {
		return l.limit, 0
	}
	return l.limit - (s.total() - s.before), time.Duration(s.entries[n-1].at + l.window - t)
}

// spend logs at most limit units for one time: no others pass while they count, so
// more would make no difference.
func (l *SlidingLog) spend(s timeLog, t, n int64) timeLog {
	s, t = l.at(s, t)
	total := s.total() + min(n, l.limit)
	if last := len(s.entries) - 1; last >= 0 && s.entries[last].at == t {
		before := timeLog{s.entries[:last], s.before}.total()
		s.entries[last].total = min(total-before, l.limit) + before
		return s
	}
	s.entries = append(s.entries, logEntry{t, total})
	return s
}

func (l *SlidingLog) since(s timeLog) int64 {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].at
	}
	return -maxTime
}

package exactmath

import (
	"sort"
	"time"
)

// SlidingLog admits n units while the units younger than window, plus n, are at most
// limit.
type SlidingLog struct{ limit, window int64 }

// TimeLog holds entries in the order of their times.
type TimeLog struct {
	entries []logEntry
	before  int64 // units logged before the first entry
}

// logEntry carries the running sum, so that the units between any two entries are one
// subtraction, right even where the sum has wrapped around.
type logEntry struct {
	at    int64 // Unix ns
	total int64 // units logged up to and with this entry
}

// NewSlidingLog returns the rule of limit units per window.
func NewSlidingLog(limit, window int64) SlidingLog { return SlidingLog{limit, window} }

// at returns the part of the log that counts at t, and the time that t is taken as.
func (l *SlidingLog) at(s TimeLog, t int64) (TimeLog, int64) {
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

func (s TimeLog) total() int64 {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].total
	}
	return s.before
}

// Wait implements [Rule].
func (l *SlidingLog) Wait(s TimeLog, t, n int64) time.Duration {
	s, t = l.at(s, t)
	free := l.limit - n
	if s.total()-s.before <= free {
		return 0
	}
	i := sort.Search(len(s.entries), func(i int) bool { return s.total()-s.entries[i].total <= free })
	return time.Duration(s.entries[i].at + l.window - t)
}

// Left implements [Rule].
func (l *SlidingLog) Left(s TimeLog, t int64) (int64, time.Duration) {
	s, t = l.at(s, t)
	n := len(s.entries)
	if n == 0 {
		return l.limit, 0
	}
	return l.limit - (s.total() - s.before), time.Duration(s.entries[n-1].at + l.window - t)
}

// Spend implements [Rule]. It logs at most limit units for one time: no others pass
// while they count, so more would make no difference.
func (l *SlidingLog) Spend(s TimeLog, t, n int64) TimeLog {
	s, t = l.at(s, t)
	total := s.total() + min(n, l.limit)
	if last := len(s.entries) - 1; last >= 0 && s.entries[last].at == t {
		before := TimeLog{s.entries[:last], s.before}.total()
		s.entries[last].total = min(total-before, l.limit) + before
		return s
	}
	s.entries = append(s.entries, logEntry{t, total})
	return s
}

// Since implements [Rule].
func (l *SlidingLog) Since(s TimeLog) int64 {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].at
	}
	return -MaxTime
}

package rules

import (
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// A limiter counts windows of one length, and months have four. The limiter of a rule
// whose windows are months is made for the longest, and its time is not that of clocks:
// it begins each month at a multiple of that length, goes as fast as clocks do, and
// leaps ahead at the end of a shorter month.

// longestMonth is the window of limiters of months.
const longestMonth = 31 * 24 * time.Hour

// monthOf returns when the month in UTC began to which a time belongs, and when it ends.
func monthOf(t time.Time) (start, end time.Time) {
	year, month, _ := t.UTC().Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
}

// monthTime returns the time of limiters of months.
func monthTime(t time.Time) time.Time {
	start, _ := monthOf(t)
	months := int64(start.Year()-1970)*12 + int64(start.Month()) - 1
	return time.Unix(months*int64(longestMonth/time.Second), 0).Add(t.Sub(start))
}

// clockTime returns a decision of a limiter of months at a time with spans as clocks
// have them. They lead to the end of the month.
func clockTime(d sketchlimit.Decision, t time.Time) sketchlimit.Decision {
	start, end := monthOf(t)
	leap := longestMonth - end.Sub(start)
	if d.RetryAfter > leap && d.RetryAfter <= longestMonth {
		d.RetryAfter -= leap
	}
	if d.ResetAfter > leap && d.ResetAfter <= longestMonth {
		d.ResetAfter -= leap
	}
	return d
}

// at returns the time of the rule's limiter.
func (r *Rule) at(t time.Time) time.Time {
	if r.Months {
		return monthTime(t)
	}
	return t
}

// UntilReset returns the time from now until the rule's fixed window ends. Other windows
// have no end.
func (r *Rule) UntilReset(now time.Time) time.Duration {
	if r.Months {
		_, end := monthOf(now)
		return end.Sub(now)
	}
	return r.Window - time.Duration(now.UnixNano()%int64(r.Window))
}

// byMonths makes windows of 30 days those of the calendar.
func (r *Rule) byMonths() (err error) {
	r.Months, r.Window = true, longestMonth
	r.counter.months, r.counter.window = true, longestMonth
	if r.Limit > 0 {
		_, r.bytes, err = r.config().Size()
	}
	return err
}

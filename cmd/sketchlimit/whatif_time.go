package main

import (
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
)

const (
	day = 24 * time.Hour
	// longLog is how long a log is that is told day by day.
	longLog = 3 * day
	// mostBins are as many stretches as a picture has room for on a telephone.
	mostBins = 62
	// mostDays is how many days a table has; of a longer log it has the busiest.
	mostDays, busiestDays = 14, 10
)

// stretch is steps of the log that are told together.
type stretch struct {
	start    time.Time
	from, to int // of Report.Steps
}

// spans puts the steps together by a length, in whole days from the Unix epoch on.
func (r *answer) spans(length time.Duration) (all []stretch) {
	for i, s := range r.Steps {
		start := time.Unix(0, s.Start.UnixNano()-s.Start.UnixNano()%int64(length)).UTC()
		if n := len(all); n > 0 && all[n-1].start.Equal(start) {
			all[n-1].to = i + 1
			continue
		}
		all = append(all, stretch{start, i, i + 1})
	}
	return all
}

// byDay reports whether the log is so long that days are told first.
func (r *answer) byDay() bool { return r.StepLength < day && r.Last.Sub(r.First) > longLog }

// binLength is the length of stretches that a picture shows.
func (r *answer) binLength() time.Duration {
	length := r.StepLength
	for _, hours := range []int{1, 2, 3, 6, 12, 24, 48, 7 * 24, 14 * 24, 28 * 24, 84 * 24} {
		if length >= r.StepLength && r.Last.Sub(r.Steps[0].Start) <= mostBins*length {
			return length
		}
		length = max(time.Duration(hours)*time.Hour, r.StepLength)
	}
	for r.Last.Sub(r.Steps[0].Start) > mostBins*length {
		length *= 2
	}
	return length
}

// requests are those of a stretch.
func (s stretch) requests(r *answer) (n uint64) {
	for _, step := range r.Steps[s.from:s.to] {
		n += step.Requests
	}
	return n
}

func (s stretch) units(r *answer) (n uint64) {
	for _, step := range r.Steps[s.from:s.to] {
		n += step.Units
	}
	return n
}

// refused are the requests of a stretch that a limit refuses.
func (s stretch) refused(l *whatif.Limit) (n uint64) {
	for _, step := range l.BySteps[s.from:s.to] {
		n += step.Requests
	}
	return n
}

// stretchName is hour, day, or 7 days.
func stretchName(d time.Duration) string {
	switch {
	case d < time.Hour:
		return plural(int(d/time.Minute), "minute", "minutes")
	case d == time.Hour:
		return "hour"
	case d == day:
		return "day"
	case d%day == 0:
		return plural(int(d/day), "day", "days")
	}
	return plural(int(d/time.Hour), "hour", "hours")
}

// dates are ticks for an axis of hours since start: midnights with their dates, or
// times of the day where there are few of them.
func (r *answer) dates(c draw.Canvas, start time.Time, hours float64) plot.TickerFunc {
	room := float64(c.Max.X-c.Min.X) / 58
	step := 5 * time.Minute
	for _, m := range []int{5, 10, 15, 30, 60, 2 * 60, 3 * 60, 6 * 60, 12 * 60, 24 * 60} {
		if step = time.Duration(m) * time.Minute; hours/step.Hours() <= room {
			break
		}
	}
	for _, d := range []int{1, 2, 4, 7, 14, 28, 56, 112, 224, 448} {
		if step < day || hours/step.Hours() <= room {
			break
		}
		step = time.Duration(d) * day
	}
	return func(_, _ float64) (ticks []plot.Tick) {
		first := start.Truncate(step)
		if first.Before(start) {
			first = first.Add(step)
		}
		for at := first; at.Sub(start).Hours() <= hours; at = at.Add(step) {
			label := at.Format("15:04")
			if step >= day {
				label = at.Format("2 Jan")
			} else if at.Equal(at.Truncate(day)) {
				label = at.Format("2 Jan")
			}
			if at.Sub(start) < step/3 { // it would reach into the labels of the other axis
				label = ""
			}
			ticks = append(ticks, plot.Tick{Value: at.Sub(start).Hours(), Label: label})
		}
		return ticks
	}
}

// timeLabel says what the axis shows.
func (r *answer) timeLabel() string {
	first, last := r.First.Format(time.DateOnly), r.Last.Format(time.DateOnly)
	if first == last {
		return first + ", UTC"
	}
	return first + " … " + last + ", UTC"
}

package whatif

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

const (
	// A limit is suggested if it refuses at least leastRequests of the requests and at
	// most mostKeys of the keys.
	leastRequests = 0.01
	mostKeys      = 0.02
	// To refuse one more key in a thousand must bring this many requests in a thousand.
	worth = 10
	// Of limits that are nearly as good as the best, the highest leaves the others the
	// most room.
	nearly = 0.9
	// Who refuses a greater share of all requests refuses what a service is for.
	demand = 0.1
)

const caveat = "This is what the log would have met, unchanged. Clients that are refused behave differently: they retry, wait or go away."

// gain is what a limit wins: the share of requests that it refuses, less what the keys
// cost that it refuses for that.
func gain(l *Limit, keyCost float64) float64 { return l.RequestShare - keyCost*l.KeyShare }

// knee returns the limit that refuses the greatest share of requests beyond the share
// of keys that it refuses.
func knee(limits []Limit) int {
	best, most := -1, 0.0
	for i := range limits {
		if g := gain(&limits[i], 1); g > most {
			best, most = i, g
		}
	}
	return best
}

// suggest chooses a limit.
func suggest(r *Report) Suggestion {
	if r.Requests == 0 {
		return Suggestion{Reason: "The log has no requests.", Caveat: caveat}
	}
	var window *Window
	var limit *Limit
	best := 0.0
	for i := range r.Windows {
		w := &r.Windows[i]
		if w.Longer {
			continue
		}
		if l := w.separating(); l != nil && gain(l, worth) > best {
			window, limit, best = w, l, gain(l, worth)
		}
	}
	if limit == nil {
		return unreached(r)
	}
	s := Suggestion{Found: true, Window: window.Window, Limit: limit.Limit, Caveat: caveat}
	s.Reason = r.Refusals(window, limit, "key", "keys")
	return s
}

// Refusals returns a sentence with the keys and requests that a limit refuses. key and
// keys are the words for one key and for several.
func (r *Report) Refusals(w *Window, l *Limit, key, keys string) string {
	text := fmt.Sprintf("%s%s: refuses %s of %s %s (%s) and %s of %s requests (%s)", Rate(l.Limit, w.Window), r.few(w.Window),
		about(l.Keys), about(r.Keys), keys, percent(l.KeyShare), about(l.Requests), integer(int(r.Requests)), percent(l.RequestShare))
	known := key
	if len(l.Top) > 0 && l.Top[0].Key != "" {
		known += ", `" + brief(KeyText(l.Top[0].Key)) + "`"
	}
	these := fmt.Sprintf("these %s %s. Look at them first.", about(l.Keys), keys)
	switch {
	case l.Keys == Estimate{Value: 1}:
		text += ", all from one " + known
		these = "this " + key + ". Look at it first."
	case l.Keys96 == 1:
		text += ", 96 % of these from one " + known
		these = "this " + key + ". Look at it first."
	case l.Keys96 > 1:
		text += fmt.Sprintf(", 96 %% of these from %s %s", integer(l.Keys96), keys)
		these = fmt.Sprintf("these %s %s. Look at them first.", integer(l.Keys96), keys)
	}
	text += "."
	if l.RequestShare > demand {
		text += fmt.Sprintf(" That is more than %g %% of all requests: demand rather than abuse, unless you know %s", 100*demand, these)
	}
	return text
}

// few warns of a log of few windows.
func (r *Report) few(window time.Duration) string {
	if n := float64(r.Last.Sub(r.First)) / float64(window); n < fewWindows {
		return fmt.Sprintf(", from only %.1f windows of log", min(n, 2.9)) // no 3.0
	}
	return ""
}

// separating returns the limit that separates the few heaviest keys best, or nil if
// none does.
func (w *Window) separating() *Limit {
	best := 0.0
	for i := range w.Limits {
		if l := &w.Limits[i]; l.separates() {
			best = max(best, gain(l, worth))
		}
	}
	var chosen *Limit
	for i := range w.Limits {
		if l := &w.Limits[i]; l.separates() && best > 0 && gain(l, worth) >= nearly*best {
			chosen = l // by rising limit
		}
	}
	return chosen
}

func (l *Limit) separates() bool {
	return l.RequestShare >= leastRequests && l.KeyShare <= mostKeys && l.Requests.Error <= l.Requests.Value/2
}

// unreached returns the lowest limit that refuses no key, in the window in which it
// allows the highest rate.
func unreached(r *Report) Suggestion {
	s := Suggestion{Caveat: caveat}
	free := func(l *Limit) bool { return l.Requests.Value <= float64(r.Costless) }
	if w, l := r.lowest(func(l *Limit) bool { return free(l) && l.Requests.Error == 0 }); l != nil {
		s.Window, s.Limit = w.Window, l.Limit
		s.Reason = r.nobody() + fmt.Sprintf("%s would have refused nobody%s. ", Rate(s.Limit, s.Window), r.few(s.Window))
	} else if w, l := r.lowest(free); l != nil {
		s.Window, s.Limit = w.Window, l.Limit
		s.Reason = r.nobody() + fmt.Sprintf("%s is not known to have refused anybody, %s ± %s requests%s. ", Rate(s.Limit, s.Window),
			integer(int(l.Requests.Value)), integer(int(math.Ceil(l.Requests.Error))), r.few(s.Window))
	} else {
		w := &r.Windows[len(r.Windows)-1]
		l := &w.Limits[len(w.Limits)-1]
		s.Reason = fmt.Sprintf("No limit to suggest: every one that was tried refuses requests, and %s still %s of them. ", Rate(l.Limit, w.Window),
			percent(l.RequestShare))
	}
	if barred, _ := r.barred(); barred != "" {
		s.Reason = barred + Conditions
		return s
	}
	s.Reason += Conditions + " None does."
	if last := r.Windows[len(r.Windows)-1].Window; last < longWindow && r.Last.Sub(r.First) >= fewWindows*longWindow {
		s.Reason += fmt.Sprintf(" Slower abusers show in longer windows: try --windows %s.", Span(longWindow))
	}
	return s
}

const (
	// longWindow is tried next where the log has days.
	longWindow = 24 * time.Hour
	// fewWindows is how many windows a log should have.
	fewWindows = 3
)

// nobody says in which windows there are no abusers.
func (r *Report) nobody() string {
	_, judged := r.barred()
	return "No abusers in windows of " + listed(judged) + ": "
}

// barred says why there is no suggestion although a window that the log does not fill
// may have one, and which windows it fills.
func (r *Report) barred() (reason string, judged []string) {
	var unfilled, fitting []string
	for i := range r.Windows {
		w := &r.Windows[i]
		span := Span(w.Window)
		if !w.Longer {
			judged = append(judged, span)
			continue
		}
		unfilled = append(unfilled, span)
		if l := w.separating(); l != nil {
			fitting = append(fitting, span)
		}
	}
	length := r.Last.Sub(r.First)
	if length > time.Second {
		length = length.Truncate(time.Second) // up, it might be as long as the window
	}
	log := Span(length)
	switch {
	case len(judged) == 0:
		return fmt.Sprintf("No suggestion: the log (%s) is shorter than the window (%s). ", log, listed(unfilled)), judged
	case len(fitting) > 0:
		return fmt.Sprintf("No suggestion: no limit fits in windows of %s, and the log (%s) is shorter than the window (%s) where one does. ",
			listed(judged), log, listed(fitting)), judged
	}
	return "", judged
}

// listed is a, b or c.
func listed(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return strings.Join(words, "")
}

// Conditions say what a suggested limit is.
var Conditions = fmt.Sprintf("A limit is suggested if it refuses at least %g %% of the requests, at most %g %% of the keys, and more than %d times as great a "+
	"share of the requests as of the keys.", 100*leastRequests, 100*mostKeys, worth)

// Rate is a limit in words: 60 a minute, or 60 per 10 minutes.
func Rate(limit int, window time.Duration) string { return integer(limit) + " " + per(window) }

// per is a minute, or per 10 minutes.
func per(window time.Duration) string {
	for _, unit := range []struct {
		length    time.Duration
		one, name string
	}{{24 * time.Hour, "a day", "days"}, {time.Hour, "an hour", "hours"}, {time.Minute, "a minute", "minutes"}, {time.Second, "a second", "seconds"}} {
		switch {
		case window == unit.length:
			return unit.one
		case window%unit.length == 0:
			return fmt.Sprintf("per %d %s", window/unit.length, unit.name)
		}
	}
	return "per " + Span(window)
}

// lowest returns the lowest limit that fits, in the longest window of up to a minute
// that the log fills, or else in the shortest where one does.
func (r *Report) lowest(fits func(*Limit) bool) (window *Window, limit *Limit) {
	for i := range r.Windows {
		w := &r.Windows[i]
		k := slices.IndexFunc(w.Limits, func(l Limit) bool { return fits(&l) })
		if k >= 0 && (limit == nil || w.Window <= time.Minute && !w.Longer) {
			window, limit = w, &w.Limits[k]
		}
	}
	return window, limit
}

// percent writes a share in per cent, to two digits.
func percent(share float64) string {
	p := 100 * share
	if p == 0 || p >= 99.95 {
		return fmt.Sprintf("%.0f %%", p)
	}
	digits := max(0, 1-int(math.Floor(math.Log10(p))))
	return fmt.Sprintf("%.*f %%", digits, p)
}

// about writes an estimate.
func about(e Estimate) string {
	if e.Error == 0 {
		return integer(int(e.Value))
	}
	round := math.Pow(10, max(0, math.Floor(math.Log10(max(e.Value, 1)))-1)) // two digits tell enough
	return "about " + integer(int(round*math.Round(e.Value/round)))
}

// KeyText is a key for people: quoted where it has bytes that could not be seen.
func KeyText(key string) string {
	if key == "" {
		return "(unknown)"
	}
	if q := strconv.Quote(key); q != `"`+key+`"` {
		return q
	}
	return key
}

// brief cuts a long key.
func brief(key string) string {
	const most = 48
	if runes := []rune(key); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return key
}

func integer(n int) string { return humanize.Comma(int64(n)) }

// Span writes a duration in full, as it is written in flags and files of rules: 48h,
// 1m, 1m1.5s.
func Span(d time.Duration) string {
	text := d.String()
	for _, unit := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, unit) {
			text = text[:len(text)-2]
		}
	}
	return text
}

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
	// Of limits that are nearly as good as the best, the highest is taken.
	nearly = 0.9
	// A limit that refuses a greater share of all requests refuses demand, unless its
	// keys are known.
	demand = 0.1
	// named is how many keys are named, and looked at one by one.
	named = 3
)

const caveat = "This is what the log would have met, unchanged. Clients that are refused behave differently: they retry, wait or go away."

// gain is what a limit wins: the share of requests that it refuses, less what the keys
// cost that it refuses for that.
func gain(l *Limit, keyCost float64) float64 { return l.RequestShare - keyCost*l.KeyShare }

// score returns the gain that limits are compared by. In a log of few keys a single
// abuser is a great share of them: it costs nothing.
func (r *Report) score(l *Limit) float64 {
	if r.refusesOutlier(l) {
		return gain(l, 0)
	}
	return gain(l, worth)
}

// refusesOutlier reports whether l refuses one key only, which is more than mostKeys of
// the keys, and sends more than worth times the mean of the others.
func (r *Report) refusesOutlier(l *Limit) bool {
	if l.Keys != (Estimate{Value: 1}) || l.KeyShare <= mostKeys || r.Keys.Value < 2 || len(r.Heaviest) == 0 {
		return false
	}
	own := float64(r.Heaviest[0].Requests - r.Heaviest[0].Error)
	return own*(r.Keys.Value-1) > worth*(float64(r.Requests)-own)
}

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
	window, limit := r.best(1)
	if limit == nil {
		return unreached(r)
	}
	if limit.isDemand() && !limit.ofFewKeys() {
		if w, l := r.best(demand); l != nil {
			window, limit = w, l
		}
	}
	s := Suggestion{Found: true, Demand: limit.isDemand(), Window: window.Window, Limit: limit.Limit, Caveat: caveat}
	s.Reason = r.Refusals(window, limit, "key", "keys")
	return s
}

// best returns the limit with the best score of those that refuse at most a share of
// the requests, nil if there is none.
func (r *Report) best(share float64) (window *Window, limit *Limit) {
	best := 0.0
	for i := range r.Windows {
		w := &r.Windows[i]
		if w.Longer {
			continue
		}
		if l := r.separating(w, share); l != nil && r.score(l) > best {
			window, limit, best = w, l, r.score(l)
		}
	}
	return window, limit
}

// isDemand reports whether a limit refuses so much that it is demand rather than abuse.
func (l *Limit) isDemand() bool { return l.RequestShare > demand }

// ofFewKeys reports whether nearly all that a limit refuses is of at most named keys.
func (l *Limit) ofFewKeys() bool { return l.Keys96 >= 1 && l.Keys96 <= named }

// Refusals returns a sentence with the keys and requests that a limit refuses. key and
// keys are the words for one key and for several.
func (r *Report) Refusals(w *Window, l *Limit, key, keys string) string {
	text := fmt.Sprintf("%s refuses %s of %s %s (%s) and %s of %s requests (%s)", Rate(l.Limit, w.Window),
		about(l.Keys), about(r.Keys), keys, percent(l.KeyShare), about(l.Requests), integer(int(r.Requests)), percent(l.RequestShare))
	these := fmt.Sprintf("these %s %s. Look at them first.", about(l.Keys), keys)
	switch {
	case l.Keys == Estimate{Value: 1}:
		text += ", all from one " + key + l.names(", ", 1)
		these = "this " + key + ". Look at it first."
	case l.Keys96 == 1:
		text += "; 96 % of the refused requests are from one " + key + l.names(", ", 1)
		these = "this " + key + ". Look at it first."
	case l.Keys96 > 1:
		text += fmt.Sprintf("; 96 %% of the refused requests are from %s %s%s", integer(l.Keys96), keys, l.names(": ", l.Keys96))
		these = fmt.Sprintf("these %s %s. Look at them first.", integer(l.Keys96), keys)
	}
	text += "." + r.few(w.Window)
	if !l.isDemand() {
		return text
	}
	text += fmt.Sprintf(" That is more than %g %% of all requests: demand rather than abuse, unless you know %s", 100*demand, these)
	if !l.ofFewKeys() {
		return "No clear abusers: " + text
	}
	if milder, m := r.best(demand); m != nil {
		text += fmt.Sprintf(" A milder limit, %s, refuses %s.", Rate(m.Limit, milder.Window), percent(m.RequestShare))
	}
	if l.Keys96 == 1 || l.Keys.Value == 1 {
		return "One " + key + " may be an abuser: " + text
	}
	return fmt.Sprintf("%d %s may be abusers: %s", l.Keys96, keys, text)
}

// names returns the n keys with the most refused requests, behind a separator; "" if n
// is above named, or if one is not known.
func (l *Limit) names(separator string, n int) string {
	if n > named || n > len(l.Top) {
		return ""
	}
	var names []string
	for i := range l.Top[:n] {
		if l.Top[i].Key == "" {
			return ""
		}
		names = append(names, "`"+brief(KeyText(l.Top[i].Key))+"`")
	}
	return separator + strings.Join(names, ", ")
}

// few warns of a log of few windows.
func (r *Report) few(window time.Duration) string {
	if n := float64(r.Last.Sub(r.First)) / float64(window); n < fewWindows {
		return fmt.Sprintf(" The log covers only %.1f windows of %s.", min(n, 2.9), inWords(window)) // no 3.0
	}
	return ""
}

// separating returns the limit of a window that separates the few heaviest keys best, of
// those that refuse at most a share of the requests; nil if none does.
func (r *Report) separating(w *Window, share float64) *Limit {
	best := 0.0
	fits := func(l *Limit) bool { return l.RequestShare <= share && r.separates(l) }
	for i := range w.Limits {
		if l := &w.Limits[i]; fits(l) {
			best = max(best, r.score(l))
		}
	}
	var chosen *Limit
	for i := range w.Limits {
		if l := &w.Limits[i]; fits(l) && best > 0 && r.score(l) >= nearly*best {
			chosen = l // by rising limit
		}
	}
	return chosen
}

func (r *Report) separates(l *Limit) bool {
	return l.RequestShare >= leastRequests && (l.KeyShare <= mostKeys || r.refusesOutlier(l)) && l.Requests.Error <= l.Requests.Value/2
}

// unreached returns the lowest limit that refuses no key, in the window in which it
// allows the highest rate.
func unreached(r *Report) Suggestion {
	s := Suggestion{Caveat: caveat}
	free := func(l *Limit) bool { return l.Requests.Value <= float64(r.Costless) }
	if w, l := r.lowest(func(l *Limit) bool { return free(l) && l.Requests.Error == 0 }); l != nil {
		s.Window, s.Limit = w.Window, l.Limit
		s.Reason = r.nobody() + fmt.Sprintf("%s would have refused nobody.%s%s ", Rate(s.Limit, s.Window), r.few(s.Window), r.heaviest())
	} else if w, l := r.lowest(free); l != nil {
		s.Window, s.Limit = w.Window, l.Limit
		s.Reason = r.nobody() + fmt.Sprintf("%s is not known to have refused anybody, %s ± %s requests.%s%s ", Rate(s.Limit, s.Window),
			integer(int(l.Requests.Value)), integer(int(math.Ceil(l.Requests.Error))), r.few(s.Window), r.heaviest())
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
		s.Reason += fmt.Sprintf(" Slower abusers show in longer windows: try `--windows %s`.", Span(longWindow))
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
	if r.heaviest() != "" {
		return "No clear abusers in windows of " + listed(judged) + ": "
	}
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
		if r.separating(w, 1) != nil {
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

// heaviest returns a sentence with what the heaviest key sent, if that is more than
// demand of the requests.
func (r *Report) heaviest() string {
	if len(r.Heaviest) == 0 || r.Keys.Value < 2 {
		return ""
	}
	k := &r.Heaviest[0]
	share := float64(k.Requests-k.Error) / float64(r.Requests)
	if share <= demand || k.Key == "" {
		return ""
	}
	return fmt.Sprintf(" The heaviest key, `%s`, sent %s of the requests.", brief(KeyText(k.Key)), percent(share))
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
	"share of the requests as of the keys; or a single key that sends more than %[3]d times the mean of the others.", 100*leastRequests, 100*mostKeys, worth)

// Choice describes which of the limits that fulfil Conditions is suggested.
var Choice = fmt.Sprintf("Of these the score counts: the share of requests less %d times the share of keys (a single key costs nothing if it is more "+
	"than %g %% of the keys). The window with the best score is taken, and in it the highest limit with at least %g %% of that score. Limits that "+
	"refuse more than %g %% of the requests are passed over if another is left, unless %d keys or fewer have 96 %% of that.",
	worth, 100*mostKeys, 100*nearly, 100*demand, named)

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

// inWords is a window in words: 1 minute, or 10 minutes.
func inWords(window time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		switch {
		case window == unit.length:
			return "1 " + unit.name
		case window%unit.length == 0:
			return fmt.Sprintf("%d %ss", window/unit.length, unit.name)
		}
	}
	return Span(window)
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

package rules

import (
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Ask is what a request asks of the rule that one of its descriptors leads to.
type Ask struct {
	Descriptor Descriptor
	N          int       // units; 0 only looks: it tells what would be answered for 1. See Rule.Charge
	Override   *Override // a limit of the request's own in place of the files'; nil: none
}

// Override is a limit that comes with a request. It works in domains that some file
// has, and replaces the rule of the descriptor: neither Shadow nor Quota nor a name
// goes with it. It counts each list of entries by itself, in counters that all
// overrides of one Window share, whatever their limits are, and that rules of files do
// not use.
//
// Their memory is fixed, see [Options.OverrideBytes]. If that is 0, or Window is none
// of those below, the request is refused with RetryAfter [sketchlimit.Never].
type Override struct {
	Limit  int64         // units a Window, 0 blocks; 2,147,483,647 if it is higher
	Window time.Duration // a second, minute, hour, day, week, month of 30 days (see Options.CalendarMonths) or year of 365 days
}

// Answer is the answer to a request.
type Answer struct {
	Admitted bool
	Quota    bool     // all rules are in quota mode, see Options.Quota
	Known    bool     // some file has the domain; if none has, every request is admitted, and counted in Stats
	Statuses []Status // one for each Ask, in order
}

// Status is the answer to one descriptor of a request.
type Status struct {
	// Rule is the rule that applies; nil if none does, or if the rule of another
	// descriptor replaces it. With an Override it is the one that counts overrides of
	// that Window.
	Rule *Rule
	// Decision is what the rule's counter says, without regard to Shadow and Quota. If
	// no rule applies, or it is unlimited, only Allowed is set; if it blocks,
	// RetryAfter is [sketchlimit.Never].
	sketchlimit.Decision
	// Charged reports whether the units are counted even if they do not fit, see
	// Rule.Charge: the rule then refuses nothing, and Allowed reports whether they
	// fitted.
	Charged bool
	// Counts is what the Ask has added to the Rule's.
	Counts Counts
}

// Do asks the rules that the descriptors lead to, and tells whether the request is
// admitted and what each rule says. The request is refused if one of its rules refuses,
// except that those in shadow mode do not count, and those in quota mode only if all of
// them refuse.
//
// If the request is refused, no rule's units are consumed, whatever other requests do
// meanwhile: all rules are asked and taken from in one step. Rules that are only looked
// at are asked a moment before. Asks that lead to the same counter are answered alike,
// as one for the sum of their units. Only if two of them lead to two counters of one
// rule may the second be refused after the first was taken from, about as rarely as a
// new key is denied wrongly.
//
// A rule that charges counts what was spent already: also where another rule refuses,
// and with none of the others' asks. It refuses only asks for 0 units, when nothing is
// left.
//
// A request for less than 0 units is refused. With [Options.CountRefused] each Ask is
// charged by itself instead.
func (r *Rules) Do(domain string, asks ...Ask) Answer {
	return r.decide(domain, func(c *counters) {
		for i := range asks {
			c.ask(&asks[i])
		}
	})
}

// Take is [Rules.Do] for descriptors that cost n units each.
func (r *Rules) Take(domain string, n int, descriptors ...Descriptor) (admitted bool, statuses []Status) {
	a := r.decide(domain, func(c *counters) {
		for _, d := range descriptors {
			c.ask(&Ask{Descriptor: d, N: n})
		}
	})
	return a.Admitted, a.Statuses
}

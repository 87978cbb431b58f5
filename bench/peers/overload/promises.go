package main

import (
	"fmt"
	"math"
	"slices"
)

// broken says what of a row is not as promised. Some promises are grave: a limiter that
// breaks one of them is defect, whatever the load.
func (r *result) broken() (grave, others []string) {
	deny, spare := r.outcomes[0], r.outcomes[1]
	hold := func(list *[]string, kept bool, format string, args ...any) {
		if !kept {
			*list = append(*list, fmt.Sprintf("%v: ", r.row)+fmt.Sprintf(format, args...))
		}
	}
	for i, outcomes := range r.outcomes[:len(ours)] {
		over := most(outcomes, func(o *outcome) float64 { return float64(o.over) })
		hold(&grave, over == 0, "%s admitted %g units beyond the limit while it spared nobody", ours[i].name, over)
		hidden := most(outcomes, func(o *outcome) float64 { return float64(o.spared) - float64(o.state.Units) })
		hold(&grave, hidden <= 0, "%s admitted %g units too much that Stats does not count", ours[i].name, hidden)
	}
	soon := slices.ContainsFunc(spare, func(o outcome) bool { return o.switched < 0 })
	hold(&grave, !soon, "DenyProven was over capacity before the overload")
	off := func(o outcome) bool { return math.IsNaN(o.switched) }
	if r.load <= 1 && r.heavy <= plannedHeavy {
		began := slices.ContainsFunc(spare, func(o outcome) bool { return !off(o) })
		hold(&others, !began, "DenyProven was over capacity within the plan")
	}
	rate := denials(deny, late)
	if r.load >= 2 {
		hold(&grave, !slices.ContainsFunc(spare, off), "DenyProven was never over capacity")
		hold(&others, rate > 0.01, "Deny denied %.1e of innocents' requests, more than 1e-2 was expected", rate)
	}
	first, then := denials(spare, early), denials(spare, late)
	hold(&others, first <= 1e-3, "DenyProven denied %.1e of innocents' requests in the first tenth, must be ≤ 1e-3", first)
	allowed := 1e-4
	if rate <= 0.01 {
		allowed = max(allowed, 1.1*rate) // no overload yet: DenyProven must not be worse
	}
	hold(&others, then <= allowed, "DenyProven denied %.1e of innocents' requests after the first tenth, must be ≤ %.1e",
		then, allowed)
	perEntry := most(spare, func(o *outcome) float64 { return o.abusersPerEntry() })
	got := mean(spare, func(o *outcome) float64 { return o.excess.mean })
	const gotMore = "abusers got %.2f times what is theirs, must be at most %g with %.2f abusers an entry"
	hold(&others, perEntry > 0.5 || got <= 1.3, gotMore, got, 1.3, perEntry)
	hold(&others, perEntry > 1 || got <= 3, gotMore, got, 3., perEntry)
	lasting := slices.ContainsFunc(spare, func(o outcome) bool { return o.lasting })
	hold(&others, !lasting, "DenyProven may admit too much %d windows after the overload", afterWindows)
	return grave, others
}

// abusersPerEntry is abusers an entry of the table of heavy keys.
func (o *outcome) abusersPerEntry() float64 { return float64(o.keys) / float64(o.entries) }

package metrics

import (
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

// spending is a budget's picture.
type spending struct {
	budget.Stats
	bytes int
}

func ofBudget(name, unit string, kind Kind, help string, value func(*spending) float64) Of[*spending] {
	return Of[*spending]{Metric{"budget." + name, help, unit, kind, []string{"budget"}}, value}
}

var budgetTable = []Of[*spending]{
	ofBudget("open_holds", "{hold}", Sum, "Holds that are open.",
		func(s *spending) float64 { return float64(s.Open) }),
	ofBudget("held_units", "{unit}", Sum, "Units that open holds hold.",
		func(s *spending) float64 { return float64(s.Held) }),
	ofBudget("settled_units", "{unit}", Counter, "Units settled, those of expired holds and charged ones included.",
		func(s *spending) float64 { return float64(s.Settled) }),
	ofBudget("expired_holds", "{hold}", Counter, "Holds that nobody settled in time: they count in full.",
		func(s *spending) float64 { return float64(s.Expired) }),
	ofBudget("overdraft_units", "{unit}", Counter, "Units settled above what was held, or charged, that did not fit.",
		func(s *spending) float64 { return float64(s.Overdraft) }),
	ofBudget("denied_units", "{unit}", Counter, "Units denied.",
		func(s *spending) float64 { return float64(s.Denied) }),
	ofBudget("no_room_units", "{unit}", Counter, "Units denied because too many holds were open.",
		func(s *spending) float64 { return float64(s.NoRoom) }),
	ofBudget("memory", "By", Sum, "Memory that the budget takes, its limits included.",
		func(s *spending) float64 { return float64(s.bytes) }),
}

func ofLimit(name, unit string, kind Kind, help string, value func(sketchlimit.Stats) float64) Of[sketchlimit.Stats] {
	return Of[sketchlimit.Stats]{Metric{"budget." + name, help, unit, kind, []string{"budget", "limit"}}, value}
}

// limitTable is that of each limit of a budget.
var limitTable = []Of[sketchlimit.Stats]{
	ofLimit("too_low_requests", "{request}", Counter,
		"Requests with a limit below the lowest that the budget's limit is made for: all denied.",
		func(s sketchlimit.Stats) float64 { return float64(s.TooLow) }),
	ofLimit("false_denial_rate", "{denial}/{request}", Gauge,
		"Chance, 0 to 1, that a key which the budget has never seen is denied a hold of mean units now.",
		func(s sketchlimit.Stats) float64 { return s.FalseDenialRate }),
	ofLimit("audited_requests", "{request}", Counter,
		"Holds of light keys, which by the exact algorithm had used less than half of their limit, as a sample of the keys tells.",
		func(s sketchlimit.Stats) float64 { return float64(s.Audit.Requests) }),
	ofLimit("audited_false_denials", "{request}", Counter, "Those of these holds that were denied wrongly.",
		func(s sketchlimit.Stats) float64 { return float64(s.Audit.Denied) }),
	ofLimit("outside_plan", "", Gauge, "1 while the limit is not used as it was made for, see Stats.OutsidePlan; otherwise 0.",
		func(s sketchlimit.Stats) float64 { return One(s.OutsidePlan) }),
}

// Budgets returns the Source of budgets by name, see [Limiters]. The label limit is the
// index of a limit in Config.Limits.
func Budgets(budgets iter.Seq2[string, *budget.Budget]) *Source {
	metrics := slices.Concat(All(budgetTable), All(limitTable))
	return NewSource(metrics, func(context.Context) (list []Sample, _ error) {
		for name, b := range budgets {
			stats := b.Stats()
			list = Append(list, budgetTable, &spending{stats, b.MemoryBytes()}, name)
			for i, limit := range stats.Limits {
				list = Append(list, limitTable, limit, name, strconv.Itoa(i))
			}
		}
		return list, nil
	})
}

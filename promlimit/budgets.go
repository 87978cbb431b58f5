package promlimit

import (
	"iter"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

// budgetMetric is one of a budget.
type budgetMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*budget.Stats) float64
}

var budgetMetrics = []budgetMetric{
	{budgetDesc("open_holds", "Holds that are open."), now,
		func(s *budget.Stats) float64 { return float64(s.Open) }},
	{budgetDesc("held_units", "Units that open holds hold."), now,
		func(s *budget.Stats) float64 { return float64(s.Held) }},
	{budgetDesc("settled_units_total", "Units settled, those of expired holds and charged ones included."), total,
		func(s *budget.Stats) float64 { return float64(s.Settled) }},
	{budgetDesc("expired_holds_total", "Holds that nobody settled in time: they count in full."), total,
		func(s *budget.Stats) float64 { return float64(s.Expired) }},
	{budgetDesc("overdraft_units_total", "Units settled above what was held, or charged, that did not fit."), total,
		func(s *budget.Stats) float64 { return float64(s.Overdraft) }},
	{budgetDesc("denied_units_total", "Units denied."), total,
		func(s *budget.Stats) float64 { return float64(s.Denied) }},
	{budgetDesc("no_room_units_total", "Units denied because too many holds were open."), total,
		func(s *budget.Stats) float64 { return float64(s.NoRoom) }},
}

var budgetMemory = budgetDesc("memory_bytes", "Memory that the budget takes, its limits included.")

// limitMetrics are those of each limit of a budget.
var limitMetrics = []metric{
	{limitDesc("false_denial_rate", "Chance, 0 to 1, that a key which the budget has never seen is denied a hold of mean units now."), now,
		func(s sketchlimit.Stats) float64 { return s.FalseDenialRate }},
	{limitDesc("innocent_denial_rate", "Estimate of the share, 0 to 1, of the holds of innocent keys that are denied lately."), now,
		func(s sketchlimit.Stats) float64 { return s.InnocentDenialRate }},
	{limitDesc("outside_plan", "1 while the limit is not used as it was made for, see Stats.OutsidePlan; otherwise 0."), now,
		func(s sketchlimit.Stats) float64 { return one(s.OutsidePlan) }},
}

func budgetDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("sketchlimit_budget_"+name, help, []string{"budget"}, nil)
}

func limitDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("sketchlimit_budget_"+name, help, []string{"budget", "limit"}, nil)
}

// Budgets returns a collector of budgets, as [New] does of limiters. The label limit is the index of one of a budget's
// limits.
func Budgets(budgets iter.Seq2[string, *budget.Budget]) prometheus.Collector {
	descs := []*prometheus.Desc{budgetMemory}
	for _, m := range budgetMetrics {
		descs = append(descs, m.desc)
	}
	for _, m := range limitMetrics {
		descs = append(descs, m.desc)
	}
	return &collector{descs: descs, read: func() (list []prometheus.Metric) {
		for name, b := range budgets {
			name = label(name)
			stats := b.Stats()
			for _, m := range budgetMetrics {
				list = append(list, prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&stats), name))
			}
			for i := range stats.Limits {
				for _, m := range limitMetrics {
					list = append(list, prometheus.MustNewConstMetric(m.desc, m.kind, m.value(stats.Limits[i]), name, strconv.Itoa(i)))
				}
			}
			list = append(list, prometheus.MustNewConstMetric(budgetMemory, now, float64(b.MemoryBytes()), name))
		}
		return list
	}}
}

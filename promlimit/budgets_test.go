package promlimit_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/promlimit"
)

// Budgets are told of beside limiters, in one registry.
func TestBudgets(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	b, err := budget.New(budget.Config{
		Limits: []sketchlimit.Config{
			{Limit: 10, Window: time.Minute, MemoryBytes: 64 << 10, Seed: 1, Clock: clock},
			{Limit: 100, Window: time.Hour, MemoryBytes: 64 << 10, Seed: 1, Clock: clock},
		},
		InFlight: 1, HoldFor: time.Second,
	})
	require.NoError(t, err)
	hold, _ := b.Hold("ann", 4)
	b.Hold("bob", 3)  // no room
	b.Hold("ann", 11) // never
	require.True(t, hold.Settle(13))
	b.Hold("eve", 5)
	now = now.Add(time.Second)
	b.Stats()
	b.Hold("eve", 2)
	b.Do(sketchlimit.Request{Key: "low", Limit: 10}) // 100 is the lowest limit of the second

	r := prometheus.NewRegistry()
	r.MustRegister(promlimit.New(maps.All(map[string]*sketchlimit.Limiter{"api": build(t, 2, &now)})))
	r.MustRegister(promlimit.Budgets(maps.All(map[string]*budget.Budget{"tokens": b})))
	for _, want := range []string{
		"open_holds{budget=\"tokens\"} 1", "held_units{budget=\"tokens\"} 2", "settled_units_total{budget=\"tokens\"} 18",
		"expired_holds_total{budget=\"tokens\"} 1", "overdraft_units_total{budget=\"tokens\"} 3",
		"denied_units_total{budget=\"tokens\"} 15", "no_room_units_total{budget=\"tokens\"} 3",
		"too_low_requests_total{budget=\"tokens\",limit=\"1\"} 1",
		"outside_plan{budget=\"tokens\",limit=\"0\"} 0", "outside_plan{budget=\"tokens\",limit=\"1\"} 1",
	} {
		name, _, _ := strings.Cut("sketchlimit_budget_"+want, "{")
		text, err := testutil.CollectAndFormat(promlimit.Budgets(maps.All(map[string]*budget.Budget{"tokens": b})), expfmt.TypeTextPlain, name)
		require.NoError(t, err)
		require.Contains(t, string(text), "\nsketchlimit_budget_"+want+"\n")
	}
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
}

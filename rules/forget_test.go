package rules_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// Limits of long windows change again and again, in memory for three times the rule:
// that is no error, and the key that comes in between has what it has used.
func TestLimitsChangeOften(t *testing.T) {
	text := func(limit int) rules.File {
		return rules.File{Name: "f.yaml", Data: fmt.Appendf(nil, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: %d, memory: 1MiB}}]", limit)}
	}
	r, err := rules.Options{MaxMemoryBytes: 3 << 20}.New(text(100))
	require.NoError(t, err)
	for i := range 20 {
		a := r.Do("api", ask(1, "user=ann"))
		require.True(t, a.Admitted)
		require.Equal(t, 99, a.Statuses[0].Remaining)
		require.NoError(t, r.Replace(text(101+i)))
		require.LessOrEqual(t, r.MemoryBytes(), 3<<20)
	}
	require.ErrorContains(t, r.Replace(text(7), rules.File{Name: "g.yaml", Data: []byte("domain: big\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1, memory: 4MiB}}]")}),
		"must be at most 3145728", "what the files ask for, no memory that is forgotten makes room for")
	require.Equal(t, 99, r.Do("api", ask(1, "user=ann")).Statuses[0].Remaining)
}

// Who shares the counts of limiters is told of one for each change, also of a limit
// that has been before: the limiter of that time is shared no more. What was used
// counts on.
func TestLimitsThatComeBackAreTold(t *testing.T) {
	text := func(limit int) rules.File {
		return rules.File{Name: "f.yaml", Data: fmt.Appendf(nil, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: %d}}]", limit)}
	}
	var told []*sketchlimit.Limiter
	r, err := rules.Options{MaxMemoryBytes: 3 << 20, Built: func(rule *rules.Rule) { told = append(told, rule.Limiter()) }}.New(text(100))
	require.NoError(t, err)
	for i, limit := range []int{100, 200, 100, 100, 200} {
		if i > 0 {
			require.NoError(t, r.Replace(text(limit)))
		}
		require.Equal(t, limit-i-1, r.Do("api", ask(1, "user=ann")).Statuses[0].Remaining)
		require.Same(t, told[len(told)-1], r.All()[0].Limiter(), "change %d", i)
	}
	require.Len(t, told, 4, "the one that changed nothing builds nothing")
}

// All who are told of are told of at once: whoever shares counts waits for each.
func TestRulesAreToldAtOnce(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	o := rules.Options{MaxMemoryBytes: 3 << 20, Built: func(*rules.Rule) {
		both.Done()
		both.Wait()
	}}
	_, err := o.New(rules.File{Name: "f.yaml", Data: []byte(`
domain: api
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 100}}
  - {key: path, rate_limit: {unit: year, requests_per_unit: 100}}
  - {key: free, rate_limit: {unlimited: true}}
`)})
	require.NoError(t, err)
}

package operators

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/rules"
	"github.com/sketchlimit/sketchlimit/topkeys"
)

// What was charged after the fact, and did not fit, is shown beside the rule.
func TestStatusOfARuleThatCharges(t *testing.T) {
	limits, err := rules.Options{MaxMemoryBytes: 1 << 20}.New(rules.File{Name: "api.yaml", Data: []byte(
		"{domain: api, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 100, charge: true}}]}")})
	require.NoError(t, err)
	top, err := topkeys.New(10, time.Minute)
	require.NoError(t, err)
	p := &Page{Rules: limits, Top: top, Requests: func() (uint64, uint64) { return 1, 0 }}
	limits.Do("api", rules.Ask{Descriptor: rules.Descriptor{{Key: "user", Value: "ann"}}, N: 130})
	got := p.Status().Rules
	require.Len(t, got, 1)
	require.True(t, got[0].Charge)
	require.EqualValues(t, 100, got[0].Admitted, "no request counts more than its limit")
	require.EqualValues(t, 30, got[0].Overdraft)
}

package tests

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

var auditTime = time.Unix(1_700_000_000, 0)

// audited is a token bucket of which all keys are in the audit's sample.
func audited(t testing.TB, c sketchlimit.Config) *sketchlimit.Limiter {
	c.Window, c.Algorithm, c.AuditBytes, c.Seed = time.Second, sketchlimit.TokenBucket, 64<<10, 7
	return build(t, c)
}

// A debt reaches as far as the limiter takes it, by the time of the charge: also where
// the clock has stepped back.
func TestAuditOfChargesInThePast(t *testing.T) {
	l := audited(t, sketchlimit.Config{Limit: 10, Keys: 100})
	l.TakeAt(auditTime.Add(700*time.Millisecond), "k", 1)
	l.DoCharge(sketchlimit.Request{Key: "k", N: 20, Time: auditTime.Add(200 * time.Millisecond)})
	require.True(t, l.TakeAt(auditTime.Add(2200*time.Millisecond), "k", 10).Allowed)
	require.Zero(t, l.Stats().Audit.OverAdmitted)
}

// What a bucket over capacity has let through is no fault later either, as long as the
// bucket does not fill.
func TestAuditAfterSparing(t *testing.T) {
	l := audited(t, sketchlimit.Config{Limit: 10, Overload: sketchlimit.DenyProven, Plan: &sketchlimit.Plan{Shards: 1, Depth: 10, Width: 1, CellBits: 32}})
	for k := range 30 {
		l.TakeAt(auditTime, fmt.Sprint(k), 10)
	}
	for range 10 { // the first one has given its place away
		l.TakeAt(auditTime, "0", 1)
	}
	for i := range 1000 {
		l.TakeAt(auditTime.Add(time.Duration(i)*10*time.Millisecond), "0", 1)
	}
	s := l.Stats()
	require.NotZero(t, s.OverCapacity.Units)
	require.False(t, s.OverCapacity.Active)
	require.Zero(t, s.Audit.OverAdmitted)
}

// A bucket that has not been full since a restart, or since its limit was changed, may
// have used more than the audit knows.
func TestAuditAfterARestart(t *testing.T) {
	for _, changed := range []bool{false, true} {
		c := sketchlimit.Config{Limit: 100, Keys: 1000, Clock: func() time.Time { return auditTime.Add(100 * time.Second) }}
		l := audited(t, c)
		each := func(at time.Duration, n int) {
			for k := range 20 {
				l.TakeAt(auditTime.Add(at), fmt.Sprint(k), n)
			}
		}
		each(0, 90)
		var err error
		if changed {
			l, err = l.WithLimit(auditTime, 100, 100)
		} else {
			var saved bytes.Buffer
			_, err = l.WriteTo(&saved)
			require.NoError(t, err)
			l = audited(t, c)
			_, err = l.ReadFrom(&saved)
		}
		require.NoError(t, err)
		for i := 1; i <= 2000; i++ { // at exactly their rate
			each(time.Duration(i)*10*time.Millisecond, 1)
		}
		for range 20 {
			each(20*time.Second, 1)
		}
		require.Zero(t, l.Stats().Audit.Denied)
		each(30*time.Second, 60) // they are full
		s := l.Stats()
		require.GreaterOrEqual(t, s.Audit.Requests, uint64(20))
		require.Zero(t, s.Audit.Denied+s.Audit.OverAdmitted)
	}
}

// A budget's audit counts what that of a limiter counts, if holds are settled as they
// were.
func TestAuditOfBudgets(t *testing.T) {
	now := auditTime
	c := sketchlimit.Config{
		Limit: 10, Window: time.Second, Algorithm: sketchlimit.FixedWindow, Keys: 800, Headroom: 1, AuditBytes: 2 << 20, Seed: 7,
		Clock: func() time.Time { return now },
	}
	b, err := budget.New(budget.Config{InFlight: 100, HoldFor: time.Minute, Limits: []sketchlimit.Config{c}})
	require.NoError(t, err)
	l := build(t, c)
	for range 3 {
		for i := range 50 {
			for k := range 9000 {
				if i >= 4 && k >= 500 { // who ask for more than they get
					break
				}
				key := fmt.Sprint(k)
				l.Take(key, 1)
				if h, d := b.Hold(key, 1); d.Allowed {
					h.Settle(1)
				}
			}
		}
		now = now.Add(time.Second)
	}
	want, got := l.Stats().Audit, b.Stats().Limits[0].Audit
	require.Equal(t, 1., want.Share)
	require.NotZero(t, want.Denied)
	require.Equal(t, want, got)
}

// A member of a group is told of the requests that another one refuses.
func TestAuditOfGroups(t *testing.T) {
	c := sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 1000, AuditBytes: 64 << 10, Seed: 7}
	client := build(t, c)
	c.Limit, c.Seed = 100, 8
	total := build(t, c)
	g, err := sketchlimit.NewGroup(client, total)
	require.NoError(t, err)
	for k := range 400 {
		g.DoEach([]sketchlimit.Ask{
			{Limiter: 0, Request: sketchlimit.Request{Key: fmt.Sprint(k), Time: auditTime}},
			{Limiter: 1, Request: sketchlimit.Request{Key: "all", Time: auditTime}},
		})
	}
	s := client.Stats().Audit
	require.EqualValues(t, 400, s.Requests)
	require.EqualValues(t, 100, s.Admitted)
	require.EqualValues(t, 100, s.Exact, "what another one refuses is not lost")
	require.Zero(t, s.Denied+s.OverAdmitted)
}

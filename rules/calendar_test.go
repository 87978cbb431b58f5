package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

const monthly = `domain: api
descriptors:
  - {key: client, rate_limit: {unit: month, requests_per_unit: 3}}
  - {key: total, value: all, rate_limit: {unit: Month, requests_per_unit: 100}}
  - {key: slides, rate_limit: {unit: month, requests_per_unit: 3, algorithm: sliding_window}}
  - {key: twice, rate_limit: {unit: month, unit_multiplier: 2, requests_per_unit: 3}}
  - {key: days, rate_limit: {unit: day, unit_multiplier: 30, requests_per_unit: 3}}
`

// byMonths returns rules with months of the calendar, at a time that can be set.
func byMonths(t *testing.T, now *time.Time, text string) *rules.Rules {
	t.Helper()
	limits, err := rules.Options{
		MaxMemoryBytes: 64 << 20, OverrideBytes: 1 << 20, CalendarMonths: true, Clock: func() time.Time { return *now },
	}.New(rules.File{Name: "f", Data: []byte(text)})
	require.NoError(t, err)
	return limits
}

func client(name string) rules.Descriptor { return rules.Descriptor{{Key: "client", Value: name}} }

// A quota lasts from the first to the last instant of each month, however long that is,
// over many years.
func TestCalendarMonths(t *testing.T) {
	now := time.Date(2026, 8, 5, 3, 0, 0, 0, time.UTC)
	limits := byMonths(t, &now, monthly)
	take := func() rules.Status {
		_, all := limits.Take("api", 1, client("ann"))
		return all[0]
	}
	for month := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC); month.Year() < 2033; month = month.AddDate(0, 1, 0) {
		end := month.AddDate(0, 1, 0)
		for i, at := range []time.Time{month, month.AddDate(0, 0, 14), end.Add(-48 * time.Hour), end.Add(-time.Second), end.Add(-1)} {
			if now = at; now.Before(time.Date(2026, 8, 5, 3, 0, 0, 0, time.UTC)) {
				now = time.Date(2026, 8, 5, 3, 0, 0, 0, time.UTC)
			}
			s := take()
			require.Equal(t, i < 3, s.Allowed, now)
			require.Equal(t, max(0, 2-i), s.Remaining)
			require.Equal(t, end.Sub(now), s.ResetAfter)
			require.Equal(t, end.Sub(now), s.Rule.UntilReset(now))
			if !s.Allowed {
				require.Equal(t, end.Sub(now), s.RetryAfter)
			}
		}
	}
	_, all := limits.Take("api", 4, client("bob"))
	require.Equal(t, sketchlimit.Never, all[0].RetryAfter)
}

// Windows of other kinds are as they were, and so are all without the option.
func TestOtherMonths(t *testing.T) {
	now := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	months := map[string]bool{}
	for _, r := range byMonths(t, &now, monthly).All() {
		months[r.Path] = r.Months
		if r.Months {
			require.Equal(t, 31*24*time.Hour, r.Window)
		}
	}
	require.Equal(t, map[string]bool{"client": true, "total_all": true, "slides": false, "twice": false, "days": false}, months)
	plain, err := rules.Options{MaxMemoryBytes: 64 << 20}.New(rules.File{Name: "f", Data: []byte(monthly)})
	require.NoError(t, err)
	for _, r := range plain.All() {
		require.False(t, r.Months)
	}
	require.Equal(t, 30*24*time.Hour, plain.All()[0].Window)
}

// Limits that come with requests have months of the calendar as well.
func TestCalendarMonthsOfRequests(t *testing.T) {
	now := time.Date(2027, 2, 27, 0, 0, 0, 0, time.UTC)
	limits := byMonths(t, &now, monthly)
	ask := rules.Ask{Descriptor: client("ann"), N: 1, Override: &rules.Override{Limit: 1, Window: 30 * 24 * time.Hour}}
	require.True(t, limits.Do("api", ask).Admitted)
	got := limits.Do("api", ask)
	require.False(t, got.Admitted)
	require.Equal(t, 48*time.Hour, got.Statuses[0].RetryAfter)
	now = time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	require.True(t, limits.Do("api", ask).Admitted)
}

// What was used in a month is not forgotten when the limit changes, nor over a restart.
func TestCalendarMonthsCarryOn(t *testing.T) {
	now := time.Date(2027, 2, 10, 0, 0, 0, 0, time.UTC)
	limits := byMonths(t, &now, monthly)
	for range 3 {
		limits.Take("api", 1, client("ann"))
	}
	more := func(requests string) string {
		return "domain: api\ndescriptors: [{key: client, rate_limit: {unit: month, requests_per_unit: " + requests + "}}]"
	}
	require.NoError(t, limits.Replace(rules.File{Name: "f", Data: []byte(more("40"))}))
	now = now.AddDate(0, 0, 2)
	_, all := limits.Take("api", 1, client("ann"))
	require.Equal(t, 36, all[0].Remaining)

	folder := t.TempDir()
	require.NoError(t, limits.Save(folder))
	now = time.Date(2027, 2, 28, 23, 59, 59, 0, time.UTC)
	again := byMonths(t, &now, more("40"))
	require.NoError(t, again.Restore(folder))
	_, all = again.Take("api", 1, client("ann"))
	require.Equal(t, 35, all[0].Remaining)
	now = now.Add(time.Second)
	_, all = again.Take("api", 1, client("ann"))
	require.Equal(t, 39, all[0].Remaining)
}

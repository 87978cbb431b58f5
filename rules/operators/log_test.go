package operators

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// Counts that an edit has cost are one line each time, with the rule's line in its file.
func TestDroppedCountsAreLogged(t *testing.T) {
	var log strings.Builder
	o := NewLog(slog.New(slog.NewTextHandler(&log, nil)))
	file := func(window string) rules.File {
		return rules.File{Name: "f", Data: []byte("domain: api\ndescriptors: [{key: user, rate_limit: {unit: " + window + ", requests_per_unit: 5}}]")}
	}
	limits, err := rules.Options{MaxMemoryBytes: 64 << 20}.New(file("day"))
	require.NoError(t, err)
	for _, window := range []string{"day", "hour", "hour"} {
		require.NoError(t, limits.Replace(file(window)))
		o.Look(limits)
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "rule=api.user line=f:2 times=1")
}

// Each switch is one line, also if both come between two looks, or the rule's file is
// read again.
func TestOverloadIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	o := NewLog(slog.New(slog.NewTextHandler(&log, nil)))
	at := func(minute int) time.Time { return time.Unix(int64(minute)*60, 0).UTC() }
	for _, step := range []struct {
		now   sketchlimit.OverCapacity
		lines []string
	}{
		{sketchlimit.OverCapacity{}, nil},
		{sketchlimit.OverCapacity{Active: true, Since: at(1), Times: 1, Units: 5}, []string{"level=WARN rule=api since=1970-01-01T00:01:00.000Z times=1"}},
		{sketchlimit.OverCapacity{Active: true, Since: at(1), Times: 1, Units: 9}, nil},
		{sketchlimit.OverCapacity{Since: at(1), Exact: at(3), Times: 1, Units: 9}, []string{"level=INFO rule=api from=1970-01-01T00:03:00.000Z over_capacity_units=9"}},
		{sketchlimit.OverCapacity{Since: at(1), Exact: at(3), Times: 1, Units: 9}, nil},
		{sketchlimit.OverCapacity{Since: at(5), Exact: at(8), Times: 2, Units: 10}, []string{"level=WARN rule=api since=1970-01-01T00:05:00.000Z times=2", "level=INFO rule=api from=1970-01-01T00:08:00.000Z over_capacity_units=10"}},
		{sketchlimit.OverCapacity{Active: true, Since: at(5), Times: 2, Units: 11}, []string{"level=WARN rule=api since=1970-01-01T00:05:00.000Z times=2"}},
		{sketchlimit.OverCapacity{}, nil}, // another limiter
		{sketchlimit.OverCapacity{Active: true, Since: at(9), Times: 1, Units: 1}, []string{"level=WARN rule=api since=1970-01-01T00:09:00.000Z times=1"}},
	} {
		log.Reset()
		o.tell("api", step.now)
		var lines []string
		for line := range strings.Lines(log.String()) {
			level, attributes := strings.Fields(line)[1], line[strings.Index(line, "rule="):]
			lines = append(lines, level+" "+strings.TrimSpace(attributes))
		}
		require.Equal(t, step.lines, lines, "%+v", step.now)
	}
}

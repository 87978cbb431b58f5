package main

import (
	"fmt"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// seconds are the lengths of the windows, which begin at multiples of them in Unix time.
var seconds = map[rls.RateLimitResponse_RateLimit_Unit]int64{
	rls.RateLimitResponse_RateLimit_SECOND: 1,
	rls.RateLimitResponse_RateLimit_MINUTE: 60,
	rls.RateLimitResponse_RateLimit_HOUR:   3600,
	rls.RateLimitResponse_RateLimit_DAY:    86400,
	rls.RateLimitResponse_RateLimit_WEEK:   7 * 86400,
	rls.RateLimitResponse_RateLimit_MONTH:  30 * 86400,
	rls.RateLimitResponse_RateLimit_YEAR:   365 * 86400,
}

// checkReset returns an error if the time until a limit is reset was told at no time
// between two.
func checkReset(status *rls.RateLimitResponse_DescriptorStatus, from, to time.Time) error {
	return checkSeconds(status.DurationUntilReset.GetSeconds(), status.CurrentLimit.Unit, from, to)
}

func checkSeconds(told int64, unit rls.RateLimitResponse_RateLimit_Unit, from, to time.Time) error {
	length := seconds[unit]
	for now := from.Unix(); now <= to.Unix(); now++ {
		if told == length-now%length {
			return nil
		}
	}
	return fmt.Errorf("reset in %d s, which is wrong of a %v between %v and %v", told, unit, from, to)
}

// awayFromTurns waits until no window of these units turns for so long.
func awayFromTurns(forLong time.Duration, units ...rls.RateLimitResponse_RateLimit_Unit) {
	for _, unit := range units {
		length := time.Duration(seconds[unit]) * time.Second
		now := time.Now()
		if left := length - time.Duration(now.UnixNano())%length; left < forLong {
			time.Sleep(left)
		}
	}
}

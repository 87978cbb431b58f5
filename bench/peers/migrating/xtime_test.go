package migrating

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/sketchlimit/sketchlimit"
)

var clients = map[string]*rate.Limiter{}

func xTimeBefore() (func(ip string) bool, error) {
	return func(ip string) bool {
		l, ok := clients[ip]
		if !ok {
			l = rate.NewLimiter(rate.Every(time.Minute/100), 20)
			clients[ip] = l
		}
		return l.Allow()
	}, nil
}

func xTimeAfter() (func(ip string) bool, error) {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Algorithm: sketchlimit.TokenBucket, Limit: 100, Window: time.Minute, Burst: 20,
		Keys: 1_000_000, Overload: sketchlimit.DenyProven,
	})
	if err != nil {
		return nil, err
	}
	return func(ip string) bool {
		return limiter.Allow(ip)
	}, nil
}

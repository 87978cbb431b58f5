package migrating

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
)

func redisRateBefore(rdb *redis.Client) (func(ctx context.Context, key string) (bool, error), error) {
	limiter := redis_rate.NewLimiter(rdb)
	return func(ctx context.Context, key string) (bool, error) {
		res, err := limiter.Allow(ctx, key, redis_rate.PerMinute(100))
		if err != nil {
			return false, err
		}
		return res.Allowed > 0, nil
	}, nil
}

func redisRateAfter(rdb *redis.Client) (func(ctx context.Context, key string) (bool, error), error) {
	limiter, err := redislimit.NewStrict(rdb, redislimit.Config{
		Algorithm: sketchlimit.TokenBucket, Limit: 100, Window: time.Minute, Keys: 1_000_000,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		res, err := limiter.Take(ctx, key, 1)
		if err != nil {
			return false, err
		}
		return res.Allowed, nil
	}, nil
}

package redislimit

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// scripts runs one script, in the pipelines that concurrent callers share: one connection
// for each server, of which one goroutine writes while another reads (docs/redis.md has
// what the alternatives did).
type scripts struct {
	pipeline *redis.AutoPipeliner
	timeout  time.Duration
	text     string
	sha      string
}

func newScripts(client redis.UniversalClient, timeout time.Duration, text string) (scripts, error) {
	p, err := client.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true})
	if err != nil {
		return scripts{}, fmt.Errorf("redislimit: client: %w", err)
	}
	sum := sha1.Sum([]byte(text))
	return scripts{p, timeout, text, hex.EncodeToString(sum[:])}, nil
}

// run returns the script's numbers, want of them. It comes back when the context ends or
// the timeout is over, if Redis has not answered: what it sent may then still be done.
func (s *scripts) run(ctx context.Context, want int, key string, args ...any) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	reply, err := s.send(ctx, "evalsha", s.sha, key, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // a new server, or flushed: EVAL loads it too
		reply, err = s.send(ctx, "eval", s.text, key, args)
	}
	if err != nil {
		return nil, fmt.Errorf("redislimit: %w", err)
	}
	if len(reply) != want {
		return nil, fmt.Errorf("redislimit: %d numbers from Redis, must be %d", len(reply), want)
	}
	return reply, nil
}

func (s *scripts) send(ctx context.Context, command, script, key string, args []any) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmd := redis.NewIntSliceCmd(ctx, append([]any{command, script, 1, key}, args...)...)
	if err := s.pipeline.Submit(ctx, cmd).WaitContext(ctx); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

package main

import (
	"context"
	"time"

	"github.com/sketchlimit/sketchlimit/rules/operators"
)

// maintainEvery is how often rules are looked at: Stats reads the whole of each.
const maintainEvery = time.Minute

// maintain moves memory to the rules that need it, and logs which are beyond their
// plan, until the context ends.
func (s *server) maintain(ctx context.Context) {
	log := operators.NewLog(s.logger)
	ticker := time.NewTicker(maintainEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := s.rules.Adapt(); err != nil {
				s.logger.Error("rules keep the memory that they have", "error", err)
			}
			log.Look(s.rules)
		case <-ctx.Done():
			return
		}
	}
}

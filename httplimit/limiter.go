package httplimit

import (
	"errors"

	"github.com/sketchlimit/sketchlimit"
)

// Limiter decides on requests: a [sketchlimit.Limiter], a [sketchlimit.Group], a
// limiter of package exact, or of package redislimit a Synced or the result of
// Strict.Local or Exact.Local. It must be safe for concurrent use.
type Limiter = sketchlimit.Member

// CheckLimiter returns an error for nil, and for an interface that holds a nil pointer,
// as after a New whose error was ignored. It is for adapters to other frameworks.
func CheckLimiter(limiter Limiter) error {
	if isNil(limiter) {
		return errors.New("limiter nil, must be one")
	}
	return nil
}

package httplimit

import (
	"errors"

	"github.com/sketchlimit/sketchlimit"
)

// Limiter decides. A [sketchlimit.Limiter], a [sketchlimit.Group] and all limiters of package exact are Limiters, and so are, of
// package redislimit, a Synced and what Strict.Local and Exact.Local return. It must be safe for concurrent use.
type Limiter = sketchlimit.Member

// CheckLimiter returns an error for nil, and for a nil pointer in the interface: that of a New whose error nobody read. It
// is for those who put Limiters where net/http does not reach.
func CheckLimiter(limiter Limiter) error {
	if isNil(limiter) {
		return errors.New("limiter nil, must be one")
	}
	return nil
}

package sketchlimit

import "time"

// Resize replaces what decides at present by an engine of so many bytes, as growth does
// when the load asks for it, unless what was replaced before still matters. It tells
// whether it did.
func (l *Limiter) Resize(bytes int) bool { return l.growth.Resize(bytes) }

// Generation returns the length of a generation.
func (c Config) Generation() time.Duration { return c.generation() }

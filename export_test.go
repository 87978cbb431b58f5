package sketchlimit

import "time"

// Resize replaces what decides at present by a limiter of so many bytes, as growth does
// when the load asks for it, unless what was replaced before still matters. It tells
// whether it did.
func (l *Limiter) Resize(bytes int) bool {
	g := l.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.settle() {
		return false
	}
	in := l.inner.Load()
	l.replace(bytes)
	return l.inner.Load() != in
}

// Generation returns the length of a generation.
func (c Config) Generation() time.Duration { return c.generation() }

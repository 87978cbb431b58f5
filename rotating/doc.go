// Package rotating implements double-buffered rotation of state that is kept by windows
// of time.
//
// A [Timeline] cuts time into generations of one length, and says in which generation a
// moment lies, and how far into it: its [Position]. A [Ring] keeps the last few
// generations of anything in as many buffers, which are made once. Two buffers are a
// double buffer, of the current generation and the previous one. When a later
// generation becomes the current one, [Ring.Rotate] has the buffers cleared whose
// generations have expired, and they become those of the new generations. Nothing is
// moved, and other buffers are not touched.
//
// [Seed] gives each generation a seed of its own, for whatever hashes into its buffer:
// two keys that collide in one generation do not in the next.
package rotating

// Package redislimit lets several machines share one limit per key through Redis.
//
// It uses the client that a service has already: go-redis's UniversalClient, for a single
// server, Sentinel or Cluster. The server needs strings and scripts (and sorted sets for an
// [Exact] with SlidingWindow): Redis of version 5 or later, or Valkey.
//
// [Strict] asks Redis for every decision and never admits more than the limit. [Synced]
// decides locally, in some 100 ns, and exchanges counts with the other machines at every
// interval: together they may pass the limit by what the others admit in two intervals.
// The memory of both does not grow with the keys, and both may deny too early, as a
// [sketchlimit.Limiter] does. [Exact] asks Redis for every decision and is never wrong, but
// its memory grows with the keys.
package redislimit

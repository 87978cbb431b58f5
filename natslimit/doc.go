// Package natslimit lets several machines share one limit per key through NATS
// JetStream.
//
// [Synced] decides locally, in some 100 ns, and exchanges counts with the other
// machines at every interval: together they may pass the limit by what the others admit
// in two intervals, and SyncedStats.Bound says how much that is. Its memory does not
// grow with the keys, and it may deny too early, as a [sketchlimit.Limiter] does.
//
// The server must be of version 2.11 or later. All limits share one stream,
// "sketchlimit", which is made if it is not there.
package natslimit

// Package redislimit lets several machines share one limit per key through Redis, in
// memory that does not grow with the keys.
//
// It takes the client that a service has already: go-redis's UniversalClient, so a
// single server, Sentinel and Cluster all do. On the server there are strings and
// scripts alone, which Valkey and plain Redis of version 5 or later have.
//
// [Strict] asks Redis for every decision and never admits more than the limit. [Exact] does
// so too and is never wrong, but keeps every key. [Synced] decides here, in nanoseconds, and
// exchanges counts with the other machines every interval: they together may pass the limit by
// what they admit in two of them.
package redislimit

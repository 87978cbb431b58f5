// Package migrating has the pairs of docs/migrating.md: what a service on another limiter
// has, and the same on this one. Its tests compile both, send both the same requests, and
// hold the page to them.
package migrating

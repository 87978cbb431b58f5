// Package caddylimit is the HTTP handler sketch_rate_limit of Caddy: limits of requests
// for each key, for millions of keys, in memory that does not grow with them. It has
// the zones and options of mholt/caddy-ratelimit, and more.
//
//	sketch_rate_limit {
//		zone api {
//			key {client_ip}
//			window 1m
//			events 100
//		}
//	}
//
// A Caddy with it is built by
//
//	xcaddy build --with github.com/sketchlimit/sketchlimit/caddylimit
//
// or by an import of this package, for what it registers, into a main of one's own. See
// docs/caddy.md of the repository.
package caddylimit

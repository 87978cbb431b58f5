// Package heavyhitter counts the few keys that come often, exactly and beside a sketch,
// in a table of fingerprints and counts. It knows neither a clock nor a limiter:
// whoever owns the memory decides which keys get an entry, and when generations expire.
package heavyhitter

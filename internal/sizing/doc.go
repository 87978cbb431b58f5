// Package sizing chooses the dimensions of a limiter's engine: how much memory it takes
// for a number of keys, and how that memory is divided.
package sizing

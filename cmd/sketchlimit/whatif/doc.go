// Package whatif tells, from a log of requests, what a range of limits and windows would have refused.
//
// It reads the log once, in the order of time, in bounded memory. A limit is taken as the library's default algorithm
// decides: a sliding window of two weighted generations, in which only admitted units count.
package whatif

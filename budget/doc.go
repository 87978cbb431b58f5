// Package budget limits costs that show only afterwards: tokens of a language model,
// bytes of a response, seconds of a query. A request holds (reserves) the most that it
// may cost, and settles (commits) what it did cost.
//
//	hold, d := tokens.Hold(user, 4000)
//	if !d.Allowed { ... 429, try again in d.RetryAfter ... }
//	defer hold.Settle(4000) // if all else fails; the first Settle counts
//	...
//	hold.Settle(answer.Usage.TotalTokens)
//
// Requests at the same time cannot overspend, because what they may cost is held,
// exactly, from the moment that they are admitted. A check that counts afterwards would
// admit all requests that come in between.
//
// Settled units are counted by a sketch, which cannot take units back; held units are
// in an exact table of the requests in flight. Settling moves at most what was held
// from the table to the current windows, where time only lowers its weight. So the sum
// for a key rises by admissions alone.
package budget

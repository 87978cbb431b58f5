// Package budget limits what shows its cost only afterwards: tokens of a language model, bytes of a response, seconds of a
// query. A request holds what it may cost at the most, and settles what it did cost.
//
//	hold, d := tokens.Hold(user, 4000)
//	if !d.Allowed { ... 429, try again in d.RetryAfter ... }
//	defer hold.Settle(4000) // if all else fails; the first Settle counts
//	...
//	hold.Settle(answer.Usage.TotalTokens)
//
// Requests at the same time cannot overspend: what they may cost is held, exactly, from the moment that they are admitted.
// Whoever checks first and counts afterwards admits as many of them as come in between.
//
// A sketch cannot take units back, and need not: what is settled only grows, and what is held is in a table of the requests
// in flight. Settling moves at most what was held from there to the current windows, where time only lowers its weight. So
// the sum for a key rises by admissions alone.
package budget

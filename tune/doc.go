// Package tune finds the dimensions of a limiter for known traffic, and predicts what a limiter gets wrong.
//
//	plan, forecast, err := tune.Plan(
//		tune.Traffic{Keys: 1_000_000, Abusers: 0.01}, // in one window
//		tune.Goal{Limit: 100, FalseDenialRate: 1e-6},
//	)
//	...
//	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Plan: &plan})
//
// Who knows only the number of keys sets sketchlimit.Config.Keys instead: that assumes more traffic than [Traffic] with
// the same Keys, abusers who come late among it, and takes more memory.
//
// Plan simulates: it builds a few shards of a candidate, sends them their share of the traffic for a window to fill them
// and one to judge, and computes from all their cells what is too rare to be counted. The rates are means over a
// window. A limiter that has just begun, with an empty table of heavy keys, errs more in its first window if abusers
// come at once: with [Traffic].Late the plan is made for that.
package tune

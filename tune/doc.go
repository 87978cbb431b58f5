// Package tune finds the memory that a limiter needs for known traffic, and predicts how
// often it errs.
//
//	traffic := tune.Traffic{Keys: 1_000_000, Abusers: 0.01}
//	goal := tune.Goal{Limit: 100, FalseDenialRate: 1e-6}
//	plan, forecast, err := tune.Plan(traffic, goal)
//	...
//	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Plan: &plan})
//
// [Plan] takes the [Traffic] of one window and a [Goal], and returns the smallest plan
// that reaches the goal, with its [Forecast]. [Predict] returns the forecast of a plan
// that is there already. Without the traffic in detail set sketchlimit.Config.Keys:
// that assumes more than [Traffic] with the same Keys, late abusers among it, and takes
// more memory.
//
// The predictions come from a simulation, not from the textbook bounds of count-min
// sketches, which would ask for many times the memory. The error depends on the load of
// a cell only. So a few shards under their share of the traffic stand for all shards.
// The rate of errors that are too rare to be counted follows from what the simulated
// cells hold. Rates are means over a window in which the limiter has settled. In the
// first window of a new limiter, whose table of heavy keys is empty, it errs more if
// abusers come at once: [Traffic].Late plans for that. notes/prediction.md has the
// method, and notes/tuning.md compares predictions with replays.
package tune

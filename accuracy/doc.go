// Package accuracy measures a sketch limiter against the exact algorithm on the same
// requests. It makes workloads, reads traces, replays them, and returns numbers. (The
// command sketchlimit draws the plots.)
//
// # What is measured
//
// Two exact oracles run beside the limiter, with the same times.
//
// The judge knows what the limiter has admitted so far, and is asked about every
// request before the limiter is. Its answers give
//
//   - false denials: the limiter denied, the judge would have admitted;
//   - over-admissions: the limiter admitted, the judge would have denied. There must be
//     none;
//   - the estimate error: how many units more than the truth the limiter holds against
//     the key.
//
// The lone oracle sees the same requests and decides for itself. It gives
//
//   - the lost share: 1 − units the limiter admitted / units the lone oracle
//     admitted;
//   - the light keys: a key is light while it has used less than half of its limit by
//     the lone oracle's count. The judge's count would not do: a flooder that the limiter
//     cuts off early stays low there, and each of its thousands of retries would count as
//     a light key's;
//   - the false-denial rate: false denials of light keys that the lone oracle
//     admits, over requests of light keys. The report also has the share of light keys
//     that were ever denied so, which retries cannot inflate.
//
// # Sketch error and algorithm error
//
// [Replay], [Sweep] and [Ablate] compare a sketch with the exact form of the same
// algorithm, so they show the errors of the sketch alone. [Compare] shows something
// else: what the exact algorithms themselves let through or refuse, compared with a
// sliding log.
//
// # Costs that show afterwards
//
// [ReplayBudget] compares ways to limit requests whose cost shows only when they end:
// what each of them overspends and denies, by exact books. [Costs] makes such requests.
//
// # Long streams
//
// [Replay] judges every request. The others need many exact counts of every key at
// once. On a stream of more than a million requests they judge a [Sample] of the keys,
// and say so in the result. The sketch limiters still see every request, because their
// errors depend on all keys that share their cells.
package accuracy

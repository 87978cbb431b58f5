// Package accuracy measures a sketch limiter against the exact algorithm on the
// same requests: it makes workloads, reads traces, replays them, and hands out
// numbers. It draws nothing.
//
// # What is measured
//
// Two exact oracles run beside the limiter, with the same times.
//
// The judge knows what the limiter has admitted so far, and is asked about every
// request before the limiter is. From its answers come
//
//   - false denials: the limiter denied, the judge would have admitted;
//   - over-admissions: the limiter admitted, the judge would have denied. There
//     must be none;
//   - the false-denial rate: false denials of innocent keys over requests of
//     innocent keys, where a key is innocent while it has used less than half of
//     its limit by the judge's count;
//   - the estimate error: how many units more than the truth the limiter holds
//     against the key.
//
// The lone oracle sees the same requests and admits on its own. From it comes the
// withheld share: 1 − units the limiter admitted / units the lone oracle admitted.
//
// # Sketch error and algorithm error
//
// [Replay], [Sweep] and [Ablate] hold a sketch against the exact form of the very
// same algorithm, so that what they show is the sketch's doing alone. What the
// algorithms themselves let through or refuse, compared with the sliding log, is
// a different question and has its own table: [Compare].
//
// # Long streams
//
// [Replay] judges every request. The others hold many exact counts of every key at once;
// on a stream of more than a million requests they judge a [Sample] of the keys, and
// say so in the result. Limiters still see every request, since what they get wrong
// depends on all the keys that share their cells.
package accuracy

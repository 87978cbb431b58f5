// Command overload sends more traffic through limiters than they were planned for, and
// measures whom they wrong: how many requests of innocent keys they deny, and how much
// abusers get. This library plays with both settings of Config.Overload, beside four
// other kinds of limiters.
//
//	go run -C bench/peers ./overload -write ../../notes/tables/overload.md -plot ../../notes/tables/overload.png
//
// Interrupted (Ctrl-C), it reports the seeds that all rows have played.
//
// # The plan
//
// Limiters of this library are built by Config{Limit: 100, Window: time.Minute, Keys:
// 1e6 × scale}. By default that is for keys that use a fifth of their limit on average,
// one in a hundred of which asks for three times the limit; and for twice as much of
// that (Headroom). So the units of the plan are
//
//	Keys × Limit/5 × 2
//
// a window. A load of ×4 is innocent keys that ask for four times as many units.
// Abusers come on top.
//
// # A run
//
// One window of planned load (half of the units of the plan), five windows of overload
// that begin at 0, 30 or 70 % of the next one, and three windows of planned load again.
// Requests of a window come evenly, each from a key drawn at random: so a key's
// requests are a Poisson process. With -burst 5 a key drawn sends five requests in a
// row, unless it is an abuser; with -abusers-burst abusers do. The same seed gives the
// same requests.
//
// # Who is judged how
//
// An exact algorithm of the same kind sees all requests, and decides for itself. A key
// is innocent while it stands below half of the limit there. Abusers are all keys that
// ask for more than their limit; half of them come with the overload, and half one and
// a half windows later, when limiters are full. Their excess is the units that a
// limiter admits them in the overload, over those that the exact algorithm admits them.
// A second exact count, of what the limiter has admitted, tells over-admissions.
package main

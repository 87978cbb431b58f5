// Package bench holds the library's own benchmarks: what a decision costs
// (BenchmarkTake beside BenchmarkFloor, the bound to compare it with), and what a
// limiter gets wrong at full size (BenchmarkSteadyState).
package bench

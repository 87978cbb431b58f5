// Package accesslog reads the logs of web servers and proxies as requests: when, which key, at what cost.
//
// It reads plain text, gzip and zstd, from files, pipes and standard input. The formats are those of [Formats]; the first
// lines of a file tell which one it is in, and [Options] may name it. A field of a line is named as its format names it.
//
// A line that cannot be read is left out and counted by the reason. What is in memory at any time is a few blocks of
// 1 MiB and one for each pipe, however long the log and its lines are.
package accesslog

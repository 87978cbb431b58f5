// Package accesslog reads the logs of web servers and proxies as requests: when, which
// key, at what cost.
//
// It reads plain text, gzip and zstd, from files, pipes and standard input. The formats
// are those of [Formats]; the first lines of a file tell which one it is in, and
// [Options] may name it or describe it by a pattern of nginx, Apache and others. A
// field of a line is named as its format names it.
//
// Fields are chosen by what they hold. The time is the first of the usual names that
// has times of 1995 … 2100; the client is an address, or the name of a host. What is
// neither is counted and told, and a log that has mostly such lines is an error. Where
// another field is as likely, that is told. A field that Options name is taken as it
// is.
//
// A line that cannot be read is left out and counted by the reason. What is in memory
// at any time is a few blocks of 1 MiB and one for each pipe, however long the log and
// its lines are.
package accesslog

// Command sketchlimit measures what a sketch limiter gets wrong, on recorded or made-up
// traffic, against the exact algorithm, plans limiters, checks files of rules, and
// tells from an access log what limits would have refused:
//
//	sketchlimit report
//	sketchlimit report --trace access.log.gz --limit 60 --window 1m --html report.html
//	sketchlimit tune --keys 5e6 --limit 100 --window 1m
//	sketchlimit check rules.yaml
//	sketchlimit whatif access.log
//
// Without a trace or workload, report replays a recorded one that it carries along.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	limitHeap()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program on the spot
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main with everything that a test wants to hold in its hands.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) (status int) {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	refuseUnknown(root)
	return exitStatus(errOut, root.ExecuteContext(ctx))
}

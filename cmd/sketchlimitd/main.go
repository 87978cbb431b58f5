// Command sketchlimitd is Envoy's rate limit service with no Redis. It takes the place
// of envoyproxy/ratelimit: it reads the same files and environment variables, listens
// on the same ports and gives the same answers, from counts in its own memory.
//
//	RUNTIME_ROOT=/srv RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_WATCH_ROOT=false DISABLE_STATS=true sketchlimitd
//	sketchlimitd --check rules.yaml
//	sketchlimitd --help
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// What the command exits with.
const (
	exitFailure = 1
	exitUsage   = 2
)

// execute is main with everything that a test wants to hold in its hands.
func execute(ctx context.Context, args []string, out, errOut io.Writer) (status int) {
	command := newCommand()
	command.SetArgs(args)
	command.SetOut(out)
	command.SetErr(errOut)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, errLogged) {
		return exitFailure
	}
	fmt.Fprintln(errOut, "sketchlimitd:", err)
	if errors.As(err, new(failure)) {
		return exitFailure
	}
	fmt.Fprintln(errOut, "sketchlimitd --help tells what there is.")
	return exitUsage
}

// Command sketchlimitd is Envoy's rate limit service with no Redis. It takes the place of envoyproxy/ratelimit: it reads the same
// files and environment variables, listens on the same ports and gives the same answers, from counts in its own memory.
//
//	RUNTIME_ROOT=/srv RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_WATCH_ROOT=false DISABLE_STATS=true sketchlimitd
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "sketchlimitd:", err)
		os.Exit(1)
	}
}

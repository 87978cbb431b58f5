package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

func TestSoak(t *testing.T) {
	t.Cleanup(servers.Clean)
	s := servers.Sketchlimit.New(t, rules(0))
	require.NoError(t, soak(t.Output(), s, 20*time.Second))
}

package main

import (
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// These are the differences that the random requests of TestDifferential do not meet.
// The others are what the manners of the services say.

var joined = servers.Rules{"joined.yaml": `
domain: joined
descriptors:
  - key: path_a
    rate_limit: {unit: day, requests_per_unit: 7}
`}

// TestJoinedKeys: the reference looks rules up by the key and the value with a line
// between them, so that the value may stand in the key of a rule. Ours compares keys
// with keys.
func TestJoinedKeys(t *testing.T) {
	theirs := dial(t, servers.Reference.New(t, joined).GRPC, nil)
	ours := dial(t, servers.Sketchlimit.New(t, joined).GRPC, nil)
	for _, c := range []client{theirs, ours} {
		equal(t, answer(ok, status(ok, 7, day, 6)), c.ask("joined", "path_a=x"))
	}
	equal(t, answer(ok, status(ok, 7, day, 6)), theirs.ask("joined", "path=a"))
	equal(t, answer(ok, none), ours.ask("joined", "path=a"))
}

// TestOverrideWithoutUnit: the reference's process ends.
func TestOverrideWithoutUnit(t *testing.T) {
	r := request("another", "daily=foo")
	r.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3}
	theirs, ours := servers.Reference.New(t, basic), servers.Sketchlimit.New(t, basic)
	_, err := dial(t, theirs.GRPC, nil).try(r)
	require.Error(t, err)
	select {
	case <-theirs.Exited():
	case <-time.After(20 * time.Second):
		t.Fatal("the reference goes on")
	}
	c := dial(t, ours.GRPC, nil)
	_, err = c.try(r)
	require.ErrorContains(t, err, "unit")
	equal(t, answer(ok, status(ok, 20, day, 19)), c.ask("another", "daily=foo"))
}

// TestNegativeHits: those who ask to give hits back take some from the reference, and
// look at ours.
func TestNegativeHits(t *testing.T) {
	r := request("another", "daily=foo")
	const isNegativeHits = 4 // the field's number, which the reference of January 2026 does not know
	r.Descriptors[0].ProtoReflect().SetUnknown(protowire.AppendVarint(
		protowire.AppendTag(nil, isNegativeHits, protowire.VarintType), 1))
	asks := func(kind servers.Kind) *rls.RateLimitResponse {
		answer, err := dial(t, kind.New(t, basic).GRPC, nil).try(r)
		require.NoError(t, err)
		answer.Statuses[0].DurationUntilReset = nil
		return answer
	}
	equal(t, answer(ok, status(ok, 20, day, 19)), asks(servers.Reference))
	equal(t, answer(ok, status(ok, 20, day, 20)), asks(servers.Sketchlimit))
}

// Command envoylimit uses package cmd/sketchlimitd/envoylimit as somebody who gets it
// by its version.
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimitd/envoylimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

const file = `
domain: api
descriptors:
  - key: client
    rate_limit: {unit: day, requests_per_unit: 1}
`

func main() {
	dir, err := os.MkdirTemp("", "envoylimit")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		log.Fatal(err)
	}
	limits, err := rules.Load(64<<20, path)
	if err != nil {
		log.Fatal(err)
	}
	service, err := envoylimit.New(limits)
	if err != nil {
		log.Fatal(err)
	}
	request := &ratelimitv3.RateLimitRequest{Domain: "api", Descriptors: []*commonv3.RateLimitDescriptor{
		{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "client", Value: "ann"}}},
	}}
	for _, want := range []ratelimitv3.RateLimitResponse_Code{ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT} {
		response, err := service.ShouldRateLimit(context.Background(), request)
		if err != nil || response.OverallCode != want {
			log.Fatalf("%v, %v, want %v", response, err, want)
		}
	}
}

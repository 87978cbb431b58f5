// Package envoylimit is Envoy's rate limit service over the rules of package rules:
//
//	limits, err := rules.Load(256<<20, "rules.yaml")
//	service, err := envoylimit.New(limits)
//	server := grpc.NewServer()
//	ratelimitv3.RegisterRateLimitServiceServer(server, service)
//
// It answers envoy.service.ratelimit.v3 as envoyproxy/ratelimit does, from counts in
// this process. The command sketchlimitd is a server with it that takes the place of
// theirs.
package envoylimit

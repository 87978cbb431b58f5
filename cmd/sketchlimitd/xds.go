package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/client/sotw/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sketchlimit/sketchlimit/rules"
)

// xds gets rules from a management server, as Envoy gets its listeners: the whole state
// of the world over an aggregated stream.
type xds struct {
	settings *xdsSettings
	logger   *slog.Logger
	conn     *grpc.ClientConn
}

func newXDS(set *xdsSettings, logger *slog.Logger) (*xds, error) {
	security := insecure.NewCredentials()
	if set.UseTLS {
		config, err := clientTLS(clientFiles{
			"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", set.Cert, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", set.Key, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", set.CA,
		}, set.SAN)
		if err != nil {
			return nil, err
		}
		security = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: set.RetryInterval, MaxDelay: set.RetryInterval, Multiplier: 1, Jitter: 0.5},
			MinConnectTimeout: 20 * time.Second,
		}),
	}
	if set.MaxBytes > 0 {
		options = append(options, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(set.MaxBytes)))
	}
	conn, err := grpc.NewClient(set.Server, options...)
	if err != nil {
		return nil, fmt.Errorf("CONFIG_GRPC_XDS_SERVER_URL %q: %w", set.Server, err)
	}
	return &xds{set, logger, conn}, nil
}

// watch loads what the server sends until the context ends. It goes on trying while the
// server is away; rules stay meanwhile.
func (x *xds) watch(ctx context.Context, load func([]rules.File, error) error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.RandomizationFactor = x.settings.BackoffFirst, x.settings.BackoffMost, x.settings.BackoffRandom
	if !x.settings.BackoffJitter {
		pause.RandomizationFactor = 0
	}
	defer x.conn.Close()
	for {
		err := x.stream(ctx, func(files []rules.File, err error) error {
			pause.Reset()
			return load(files, err)
		})
		if ctx.Err() != nil {
			return
		}
		wait := pause.NextBackOff()
		x.logger.Error("no rules from the management server", "server", x.settings.Server, "error", err, "again_in", wait.String())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// stream loads what comes over one stream until it breaks. The server is told of each
// whether it was taken.
func (x *xds) stream(ctx context.Context, load func([]rules.File, error) error) error {
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(x.settings.Headers))
	client := sotw.NewADSClient(ctx, x.node(), resource.RateLimitConfigType)
	if err := client.InitConnect(x.conn, grpc.WaitForReady(true)); err != nil {
		return err
	}
	for {
		response, err := client.Fetch()
		if err != nil {
			return err
		}
		answer := client.Ack
		if err := load(decode(response.Resources)); err != nil {
			answer = func() error { return client.Nack(err.Error()) }
		}
		if err := answer(); err != nil {
			return err
		}
	}
}

// node is who asks.
func (x *xds) node() *corev3.Node {
	fields := map[string]*structpb.Value{}
	for pair := range strings.SplitSeq(x.settings.NodeMetadata, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			fields[name] = structpb.NewStringValue(value)
		}
	}
	return &corev3.Node{Id: x.settings.NodeID, Metadata: &structpb.Struct{Fields: fields}}
}

// decode returns the files of resources.
func decode(resources []*anypb.Any) (files []rules.File, err error) {
	for _, r := range resources {
		var c configv3.RateLimitConfig
		if err := r.UnmarshalTo(&c); err != nil {
			return nil, err
		}
		file, err := xdsFile(&c)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

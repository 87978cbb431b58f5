package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimitd/envoylimit"
	"github.com/sketchlimit/sketchlimit/rules"
	"github.com/sketchlimit/sketchlimit/rules/operators"
)

// server is the service with all that belongs to it.
type server struct {
	settings *settings
	logger   *slog.Logger
	rules    *rules.Rules
	loader   *loader
	health   *healthiness
	service  *envoylimit.Service
	stats    *statistics
	refusals *refusals
	page     *operators.Page

	snapshots *snapshots
	shared    *shared  // nil: counts are of this process alone
	reloads   []func() // of SIGHUP
}

// overrideWindows is how many units limits that come with requests may have.
const overrideWindows = 7

func newServer(ctx context.Context, set *settings, logger *slog.Logger) (*server, error) {
	s := &server{
		settings: set, logger: logger, health: newHealthiness(!set.needsRules()), snapshots: &snapshots{folder: set.SnapshotFolder, logger: logger},
	}
	err := s.snapshots.check()
	if err != nil {
		return nil, err
	}
	if s.shared, err = newShared(ctx, &set.Redis, logger); err != nil {
		return nil, err
	}
	s.rules, err = s.newRules()
	if err != nil {
		return nil, err
	}
	s.loader = newLoader(s.rules, &goodRules{set.SnapshotFolder, logger}, logger)
	s.loader.first = s.snapshots.restore
	s.loader.changed = func(some bool) {
		s.health.set(some || !set.needsRules())
		s.shared.retain(s.rules)
	}
	if s.stats, err = newStatistics(&set.Stats, s.rules, s.loader, logger); err != nil {
		return nil, err
	}
	s.registerSelf(s.stats.registry)
	if s.refusals, err = newRefusals(); err != nil {
		return nil, err
	}
	s.page = &operators.Page{Rules: s.rules, Top: s.refusals.top, Requests: s.refusals.counts}
	if !set.ShowKeys {
		s.page.Text = newMask()
	}
	if s.service, err = s.newService(); err != nil {
		return nil, err
	}
	s.stats.service = s.service
	return s, nil
}

func (s *server) newRules() (*rules.Rules, error) {
	options := s.settings.options()
	if s.shared != nil {
		options.Built, options.Seed = s.shared.add, s.shared.seed
	}
	return options.New()
}

func (s *server) newService() (*envoylimit.Service, error) {
	set := s.settings
	options := []envoylimit.Option{
		envoylimit.Loaded(s.loader.loaded), envoylimit.Observe(s.stats.observe), envoylimit.Observe(s.refusals.observe),
	}
	if set.ResponseHeaders {
		options = append(options, envoylimit.Headers(set.LimitHeader, set.RemainingHeader, set.ResetHeader))
	}
	if set.Shadow {
		options = append(options, envoylimit.Shadow())
	}
	if set.DynamicMetadata {
		options = append(options, envoylimit.DynamicMetadata())
	}
	return envoylimit.New(s.rules, options...)
}

// serve loads the rules and serves until the context ends or a port fails. Then it
// answers what has come.
func (s *server) serve(signalled context.Context) error {
	ctx, fail := context.WithCancelCause(signalled)
	defer fail(nil)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // also while it starts: it would end the process
	defer signal.Stop(hangup)
	if err := s.load(ctx); err != nil {
		return err
	}
	rpc, err := s.newGRPC(ctx)
	if err != nil {
		return err
	}
	ports, err := s.listen()
	if err != nil {
		return err
	}
	web := []*http.Server{}
	for _, p := range ports {
		s.logger.Warn("listening", "for", p.what, "address", p.listener.Addr().String())
		if p.handler == nil {
			go func() { fail(rpc.Serve(p.listener)) }()
			continue
		}
		server := s.newHTTP(p.handler)
		web = append(web, server)
		go func() { fail(server.Serve(p.listener)) }()
	}
	flushed := s.stats.flush()
	go s.maintain(ctx)
	go s.snapshots.keep(ctx, s.settings.SnapshotEvery, s.rules)
	go s.reloadOn(ctx, hangup)
	<-ctx.Done()
	s.health.end()
	if err = context.Cause(ctx); signalled.Err() != nil {
		s.linger(err)
		err = nil
	} else {
		s.logger.Error("stopping", "cause", err)
	}
	err = errors.Join(err, stop(rpc, web))
	s.snapshots.save(s.rules) // after the last request
	s.shared.end()
	flushed()
	return err
}

// newHTTP returns a server that waits for nobody: who sends or takes nothing is cut off.
func (s *server) newHTTP(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
		ReadTimeout: s.settings.ReadTimeout, IdleTimeout: s.settings.IdleTimeout,
		WriteTimeout: writeTimeout, MaxHeaderBytes: 64 << 10,
	}
}

// writeTimeout is from the header of a request to the end of its answer; the longest
// profile takes less.
const writeTimeout = 2 * time.Minute

// reloadOn reads rules and certificates again at each signal, until the context ends.
func (s *server) reloadOn(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-hangup:
			s.logger.Warn("SIGHUP: reading what there is again")
			for _, reload := range s.reloads {
				reload()
			}
		case <-ctx.Done():
			return
		}
	}
}

// linger answers requests for SHUTDOWN_DELAY, while those who look at the health send
// them elsewhere. A second signal ends it.
func (s *server) linger(cause error) {
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	s.logger.Warn("stopping", "cause", cause, "after", s.settings.ShutdownDelay.String())
	select {
	case <-time.After(s.settings.ShutdownDelay):
	case <-again:
	}
}

// load starts to load rules, and waits for the first ones.
func (s *server) load(ctx context.Context) error {
	switch s.settings.ConfigType {
	case "FILE":
		f := &files{settings: s.settings, logger: s.logger, load: s.loader.load}
		if err := f.watch(ctx); err != nil {
			return err
		}
		s.reloads = append(s.reloads, f.reload)
	default:
		x, err := newXDS(&s.settings.XDS, s.logger)
		if err != nil {
			return err
		}
		s.loader.fallBack() // the server may be away for long
		go x.watch(ctx, s.loader.load)
	}
	if !s.settings.ForceStart {
		s.loader.wait(ctx)
	}
	return nil
}

func (s *server) newGRPC(ctx context.Context) (*grpc.Server, error) {
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: s.settings.GRPCMaxConnectionAge, MaxConnectionAgeGrace: s.settings.GRPCMaxConnectionAgeGrace,
		}),
		grpc.UnaryInterceptor(s.stats.intercept),
	}
	if s.settings.GRPCUseTLS {
		config, reload, err := serverTLS(ctx, s.settings, s.logger)
		if err != nil {
			return nil, err
		}
		s.reloads = append(s.reloads, reload)
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	rpc := grpc.NewServer(options...)
	ratelimitv3.RegisterRateLimitServiceServer(rpc, s.service)
	healthv1.RegisterHealthServer(rpc, s.health.grpc)
	return rpc, nil
}

// port is where something is served: gRPC if it has no handler.
type port struct {
	what     string
	listener net.Listener
	handler  http.Handler
}

// listen opens all ports, or none.
func (s *server) listen() (ports []port, err error) {
	set := s.settings
	web := http.NewServeMux()
	web.Handle("/healthcheck", s.health)
	web.HandleFunc("/livez", alive)
	web.Handle("/json", s.service.JSON())
	type wanted struct {
		what, network, address string
		handler                http.Handler
	}
	all := []wanted{
		{"gRPC", "tcp", join(set.GRPCHost, set.GRPCPort), nil},
		{"HTTP", "tcp", join(set.Host, set.Port), web},
		{"debugging", "tcp", join(set.DebugHost, set.DebugPort), s.debug()},
	}
	if set.GRPCSocket != "" {
		all[0].network, all[0].address = "unix", set.GRPCSocket
	}
	if set.Stats.Prometheus && !set.Stats.Disable {
		metrics := http.NewServeMux()
		metrics.Handle(set.Stats.PrometheusPath, s.stats.metrics)
		all = append(all, wanted{"Prometheus", "tcp", set.Stats.PrometheusAddr, metrics})
	}
	for _, w := range all {
		listener, err := net.Listen(w.network, w.address)
		if err != nil {
			for _, p := range ports {
				p.listener.Close()
			}
			return nil, fmt.Errorf("%s: %w", w.what, err)
		}
		ports = append(ports, port{w.what, listener, w.handler})
	}
	return ports, nil
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// stopWithin is how long requests may take to be answered when the service ends. Those
// who watch its health never end.
const stopWithin = 5 * time.Second

// stop answers the requests that have come.
func stop(rpc *grpc.Server, web []*http.Server) (err error) {
	late := time.AfterFunc(stopWithin, rpc.Stop)
	defer late.Stop()
	rpc.GracefulStop()
	ctx, end := context.WithTimeout(context.Background(), stopWithin)
	defer end()
	for _, server := range web {
		err = errors.Join(err, server.Shutdown(ctx))
	}
	return err
}

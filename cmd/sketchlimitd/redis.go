package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisSettings say with whom counts are shared. Variables of envoyproxy/ratelimit that
// are not here have no effect.
type redisSettings struct {
	URL            string `envconfig:"REDIS_URL"` // "": with nobody
	Type           string `envconfig:"REDIS_TYPE" default:"SINGLE"`
	Auth           string `envconfig:"REDIS_AUTH"` // password, or user:password
	SentinelAuth   string `envconfig:"REDIS_SENTINEL_AUTH"`
	PoolSize       int    `envconfig:"REDIS_POOL_SIZE" default:"10"`
	TLS            bool   `envconfig:"REDIS_TLS" default:"false"`
	Cert           string `envconfig:"REDIS_TLS_CLIENT_CERT"`
	Key            string `envconfig:"REDIS_TLS_CLIENT_KEY"`
	CA             string `envconfig:"REDIS_TLS_CACERT"`
	SkipVerifyHost bool   `envconfig:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION" default:"false"`
	Prefix         string `envconfig:"CACHE_KEY_PREFIX"`

	Interval time.Duration `envconfig:"SHARED_INTERVAL" default:"100ms"` // between exchanges
	Seed     uint64        `envconfig:"SHARED_SEED"`                     // of all processes; 0: one that Redis keeps
}

func (r *redisSettings) check() error {
	if r.URL == "" {
		return nil
	}
	err := errors.Join(
		oneOf("REDIS_TYPE", r.Type, "SINGLE", "SENTINEL", "CLUSTER"),
		within("REDIS_POOL_SIZE", r.PoolSize, 1, 10_000),
		within("SHARED_INTERVAL", r.Interval, time.Millisecond, time.Minute),
		together("REDIS_TLS_CLIENT_CERT", r.Cert, "REDIS_TLS_CLIENT_KEY", r.Key),
	)
	if strings.ContainsAny(r.Prefix, "{}") {
		err = errors.Join(err, fmt.Errorf("CACHE_KEY_PREFIX %q, must not hold a brace", r.Prefix))
	}
	return err
}

// client returns a client of the addresses in REDIS_URL, which may be a URL, the path
// of a socket, or for CLUSTER a list with commas, and for SENTINEL one that begins with
// the name of the master.
func (r *redisSettings) client() (redis.UniversalClient, error) {
	options := &redis.UniversalOptions{Addrs: strings.Split(r.URL, ","), PoolSize: r.PoolSize, SentinelPassword: r.SentinelAuth}
	if strings.Contains(r.URL, "://") {
		url, err := redis.ParseURL(r.URL)
		if err != nil {
			return nil, errors.New("REDIS_URL, must be one as redis://user:password@host:port/0") // its text may hold a password
		}
		options.Addrs, options.Username, options.Password, options.DB, options.TLSConfig = []string{url.Addr}, url.Username, url.Password, url.DB, url.TLSConfig
	}
	if user, password, both := strings.Cut(r.Auth, ":"); both {
		options.Username, options.Password = user, password
	} else if r.Auth != "" {
		options.Password = r.Auth
	}
	if r.TLS {
		var err error
		if options.TLSConfig, err = clientTLS(clientFiles{
			"REDIS_TLS_CLIENT_CERT", r.Cert, "REDIS_TLS_CLIENT_KEY", r.Key, "REDIS_TLS_CACERT", r.CA,
		}, ""); err != nil {
			return nil, err
		}
		if r.SkipVerifyHost {
			acceptAnyName(options.TLSConfig)
		}
	}
	switch r.Type {
	case "CLUSTER":
		return redis.NewClusterClient(options.Cluster()), nil
	case "SENTINEL":
		if len(options.Addrs) < 2 {
			return nil, errors.New("REDIS_URL, must be the name of the master and addresses of sentinels, with commas")
		}
		options.MasterName, options.Addrs = options.Addrs[0], options.Addrs[1:]
		return redis.NewFailoverClient(options.Failover()), nil
	default:
		if len(options.Addrs) > 1 {
			return nil, errors.New("REDIS_URL, must be one address unless REDIS_TYPE is CLUSTER or SENTINEL")
		}
		return redis.NewClient(options.Simple()), nil
	}
}

// acceptAnyName verifies by whom a server's certificate was issued, and not for which
// name.
func acceptAnyName(config *tls.Config) {
	config.InsecureSkipVerify = true // what it skips is done here
	config.VerifyConnection = func(s tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
		for _, cert := range s.PeerCertificates[1:] {
			options.Intermediates.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(options)
		return err
	}
}

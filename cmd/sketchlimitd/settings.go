package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/sketchlimit/sketchlimit/rules"
)

// settings are the environment variables of envoyproxy/ratelimit that have a meaning
// here, with its defaults, and behind them our own.
type settings struct {
	Host      string `envconfig:"HOST" default:"0.0.0.0"`
	Port      int    `envconfig:"PORT" default:"8080"`
	DebugHost string `envconfig:"DEBUG_HOST" default:"127.0.0.1"` // it has no passwords
	DebugPort int    `envconfig:"DEBUG_PORT" default:"6070"`
	ShowKeys  bool   `envconfig:"DEBUG_SHOW_KEYS" default:"false"` // of clients that are refused, as they are

	OperatorToken string `envconfig:"OPERATOR_TOKEN"` // who has it may forgive keys, and sees them; "": nobody

	ReadTimeout time.Duration `envconfig:"HTTP_READ_TIMEOUT" default:"10s"` // of a whole request
	IdleTimeout time.Duration `envconfig:"HTTP_IDLE_TIMEOUT" default:"30s"` // of a connection between requests

	GRPCHost                  string        `envconfig:"GRPC_HOST" default:"0.0.0.0"`
	GRPCPort                  int           `envconfig:"GRPC_PORT" default:"8081"`
	GRPCSocket                string        `envconfig:"GRPC_UDS"` // in place of host and port
	GRPCMaxConnectionAge      time.Duration `envconfig:"GRPC_MAX_CONNECTION_AGE" default:"24h"`
	GRPCMaxConnectionAgeGrace time.Duration `envconfig:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h"`
	GRPCUseTLS                bool          `envconfig:"GRPC_SERVER_USE_TLS" default:"false"`
	GRPCCert                  string        `envconfig:"GRPC_SERVER_TLS_CERT"`
	GRPCKey                   string        `envconfig:"GRPC_SERVER_TLS_KEY"`
	GRPCClientCA              string        `envconfig:"GRPC_CLIENT_TLS_CACERT"` // clients must have a certificate of it
	GRPCClientSAN             string        `envconfig:"GRPC_CLIENT_TLS_SAN"`    // and for this name

	LogLevel  string `envconfig:"LOG_LEVEL" default:"WARN"`
	LogFormat string `envconfig:"LOG_FORMAT" default:"text"`

	ConfigType   string `envconfig:"CONFIG_TYPE" default:"FILE"`
	ForceStart   bool   `envconfig:"FORCE_START_WITHOUT_INITIAL_CONFIG" default:"false"`
	NeedsRules   *bool  `envconfig:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"` // to be ready; nil is true unless ForceStart
	MergeDomains bool   `envconfig:"MERGE_DOMAIN_CONFIG" default:"false"`

	RuntimeRoot           string `envconfig:"RUNTIME_ROOT" default:"/srv/runtime_data/current"`
	RuntimeSubdirectory   string `envconfig:"RUNTIME_SUBDIRECTORY"`
	RuntimeAppDirectory   string `envconfig:"RUNTIME_APPDIRECTORY" default:"config"`
	RuntimeIgnoreDotFiles bool   `envconfig:"RUNTIME_IGNOREDOTFILES" default:"false"`
	RuntimeWatchRoot      bool   `envconfig:"RUNTIME_WATCH_ROOT" default:"true"`

	XDS xdsSettings

	Shadow          bool    `envconfig:"SHADOW_MODE" default:"false"`
	Quota           bool    `envconfig:"QUOTA_MODE" default:"false"`
	CalendarMonths  bool    `envconfig:"USE_CALENDAR_MONTH_RATE_LIMIT" default:"false"`
	StopCounting    *bool   `envconfig:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"` // of refused requests; nil is true
	NearLimitRatio  float64 `envconfig:"NEAR_LIMIT_RATIO" default:"0.8"`
	DynamicMetadata bool    `envconfig:"RESPONSE_DYNAMIC_METADATA" default:"false"`

	ResponseHeaders bool   `envconfig:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false"`
	LimitHeader     string `envconfig:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit"`
	RemainingHeader string `envconfig:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining"`
	ResetHeader     string `envconfig:"LIMIT_RESET_HEADER" default:"RateLimit-Reset"`

	Stats statsSettings
	Redis redisSettings

	Memory         size          `envconfig:"MEMORY" default:"64MiB"` // of the counts of all rules
	OverrideMemory size          `envconfig:"OVERRIDE_MEMORY"`        // of it, for limits that come with requests; an eighth if not set
	SnapshotFolder string        `envconfig:"SNAPSHOT_DIR"`           // where counts are kept over restarts; none if ""
	SnapshotEvery  time.Duration `envconfig:"SNAPSHOT_INTERVAL" default:"1m"`
	ShutdownDelay  time.Duration `envconfig:"SHUTDOWN_DELAY" default:"0s"` // from SIGTERM to the end; it is not ready meanwhile
}

// needsRules reports whether the service is ready only while there are rules.
func (s *settings) needsRules() bool {
	if s.NeedsRules != nil {
		return *s.NeedsRules
	}
	return !s.ForceStart
}

// options are those of the rules of one process.
func (s *settings) options() rules.Options {
	o := rules.Options{
		MaxMemoryBytes: int(s.Memory), OverrideBytes: int(s.OverrideMemory) / overrideWindows,
		SharedBytes:  int(s.Memory) / 2, // the rest is for rules that state their size, and for counts of former limits
		MergeDomains: s.MergeDomains, CountRefused: s.StopCounting != nil && !*s.StopCounting, Quota: s.Quota,
		NearLimitRatio: float32(s.NearLimitRatio), CalendarMonths: s.CalendarMonths,
	}
	if s.Redis.URL != "" {
		o.SharedBytes = 0 // replicas must have the same sizes, whatever they have met
	}
	return o
}

// xdsSettings say where rules come from if CONFIG_TYPE is GRPC_XDS_SOTW.
type xdsSettings struct {
	NodeID        string            `envconfig:"CONFIG_GRPC_XDS_NODE_ID" default:"default"`
	NodeMetadata  string            `envconfig:"CONFIG_GRPC_XDS_NODE_METADATA"` // name=value,name=value
	Server        string            `envconfig:"CONFIG_GRPC_XDS_SERVER_URL" default:"localhost:18000"`
	RetryInterval time.Duration     `envconfig:"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" default:"3s"`
	Headers       map[string]string `envconfig:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"`
	UseTLS        bool              `envconfig:"CONFIG_GRPC_XDS_SERVER_USE_TLS" default:"false"`
	Cert          string            `envconfig:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT"`
	Key           string            `envconfig:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY"`
	CA            string            `envconfig:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT"`
	SAN           string            `envconfig:"CONFIG_GRPC_XDS_SERVER_TLS_SAN"`
	BackoffFirst  time.Duration     `envconfig:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" default:"10s"`
	BackoffMost   time.Duration     `envconfig:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" default:"60s"`
	BackoffRandom float64           `envconfig:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR" default:"0.5"`
	BackoffJitter bool              `envconfig:"XDS_CLIENT_BACKOFF_JITTER" default:"true"`
	MaxBytes      int               `envconfig:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"` // 0: as gRPC has it
}

// statsSettings say who is told of statistics.
type statsSettings struct {
	Disable          bool              `envconfig:"DISABLE_STATS" default:"false"`
	Statsd           bool              `envconfig:"USE_STATSD" default:"true"`
	StatsdHost       string            `envconfig:"STATSD_HOST" default:"localhost"`
	StatsdPort       int               `envconfig:"STATSD_PORT" default:"8125"`
	StatsdProtocol   string            `envconfig:"STATSD_PROTOCOL" default:"tcp"`
	DogStatsd        bool              `envconfig:"USE_DOG_STATSD" default:"false"`
	Mogrifiers       []string          `envconfig:"USE_DOG_STATSD_MOGRIFIERS"`
	ExtraTags        map[string]string `envconfig:"EXTRA_TAGS"`
	FlushInterval    time.Duration     `envconfig:"STATS_FLUSH_INTERVAL" default:"10s"`
	Prometheus       bool              `envconfig:"USE_PROMETHEUS" default:"false"`
	PrometheusAddr   string            `envconfig:"PROMETHEUS_ADDR" default:":9090"`
	PrometheusPath   string            `envconfig:"PROMETHEUS_PATH" default:"/metrics"`
	PrometheusMapper string            `envconfig:"PROMETHEUS_MAPPER_YAML"`
	Milliseconds     bool              `envconfig:"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS" default:"false"`
}

// kinds are what values of a type look like.
var kinds = map[string]string{
	"int": "a whole number", "uint64": "a whole number from 0 on", "bool": "true or false", "float64": "a number", "time.Duration": "a duration such as 10s",
	"map[string]string": "pairs such as name:value,name:value",
	"main.size":         "a number of bytes such as 65536, 512KiB, 64MiB or 1GiB",
}

// readSettings reads the environment.
func readSettings() (*settings, error) {
	s := new(settings)
	err := envconfig.Process("", s)
	if wrong := new(envconfig.ParseError); errors.As(err, &wrong) {
		return nil, fmt.Errorf("%s %q, must be %s", wrong.KeyName, wrong.Value, kinds[strings.TrimPrefix(wrong.TypeName, "*")])
	}
	if err != nil {
		return nil, err
	}
	if s.OverrideMemory == 0 {
		s.OverrideMemory = s.Memory / 8
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// check refuses values outside of their ranges, and those that contradict each other.
func (s *settings) check() error {
	return errors.Join(
		within("PORT", s.Port, 0, 65535), within("DEBUG_PORT", s.DebugPort, 0, 65535), within("GRPC_PORT", s.GRPCPort, 0, 65535),
		within("STATSD_PORT", s.Stats.StatsdPort, 0, 65535),
		above0("GRPC_MAX_CONNECTION_AGE", s.GRPCMaxConnectionAge), above0("GRPC_MAX_CONNECTION_AGE_GRACE", s.GRPCMaxConnectionAgeGrace),
		above0("STATS_FLUSH_INTERVAL", s.Stats.FlushInterval), above0("SNAPSHOT_INTERVAL", s.SnapshotEvery),
		above0("HTTP_READ_TIMEOUT", s.ReadTimeout), above0("HTTP_IDLE_TIMEOUT", s.IdleTimeout),
		within("SHUTDOWN_DELAY", s.ShutdownDelay, 0, time.Hour),
		oneOf("CONFIG_TYPE", s.ConfigType, "FILE", "GRPC_XDS_SOTW"),
		oneOf("STATSD_PROTOCOL", s.Stats.StatsdProtocol, "tcp", "udp"),
		share("NEAR_LIMIT_RATIO", s.NearLimitRatio),
		within("MEMORY", s.Memory, 1<<20, min(1<<40, math.MaxInt)), within("OVERRIDE_MEMORY", s.OverrideMemory, 64<<10, s.Memory),
		s.XDS.check(), s.Stats.check(), s.Redis.check(), s.checkTLS(), s.checkHeaders(), s.checkSnapshots(),
	)
}

func (x *xdsSettings) check() error {
	return errors.Join(
		above0("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", x.RetryInterval),
		above0("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", x.BackoffFirst),
		atMost("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", x.BackoffFirst, "XDS_CLIENT_BACKOFF_MAX_INTERVAL", x.BackoffMost),
		within("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", x.BackoffRandom, 0, 1),
		within("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", x.MaxBytes, 0, 1<<30),
		together("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", x.Cert, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", x.Key),
	)
}

func (s *statsSettings) check() error {
	sinks := 0
	for _, used := range []bool{s.Statsd, s.DogStatsd, s.Prometheus} {
		if used {
			sinks++
		}
	}
	if sinks > 1 && !s.Disable {
		return fmt.Errorf("USE_STATSD %t, USE_DOG_STATSD %t, USE_PROMETHEUS %t: unable to use more than one stats sink at the same time (USE_STATSD is true if not set)",
			s.Statsd, s.DogStatsd, s.Prometheus)
	}
	if !strings.HasPrefix(s.PrometheusPath, "/") || strings.ContainsAny(s.PrometheusPath, "{} ") {
		return fmt.Errorf("PROMETHEUS_PATH %q, must begin with a slash, and be without braces and spaces", s.PrometheusPath)
	}
	return nil
}

func (s *settings) checkTLS() error {
	if s.GRPCUseTLS && (s.GRPCCert == "" || s.GRPCKey == "") {
		return fmt.Errorf("GRPC_SERVER_USE_TLS true, GRPC_SERVER_TLS_CERT %q and GRPC_SERVER_TLS_KEY %q must both be set", s.GRPCCert, s.GRPCKey)
	}
	if s.GRPCClientSAN != "" && s.GRPCClientCA == "" {
		return fmt.Errorf("GRPC_CLIENT_TLS_SAN %q, goes with GRPC_CLIENT_TLS_CACERT only", s.GRPCClientSAN)
	}
	return nil
}

func (s *settings) checkHeaders() error {
	if s.ResponseHeaders && (s.LimitHeader == "" || s.RemainingHeader == "" || s.ResetHeader == "") {
		return fmt.Errorf("LIMIT_LIMIT_HEADER %q, LIMIT_REMAINING_HEADER %q, LIMIT_RESET_HEADER %q, must be three names",
			s.LimitHeader, s.RemainingHeader, s.ResetHeader)
	}
	return nil
}

// checkSnapshots refuses snapshots of counts that are shared: what Redis knows of this
// process would count twice.
func (s *settings) checkSnapshots() error {
	if s.SnapshotFolder != "" && s.Redis.URL != "" {
		return fmt.Errorf("SNAPSHOT_DIR %q with REDIS_URL, only one of them may be set: Redis keeps the counts over a restart", s.SnapshotFolder)
	}
	return nil
}

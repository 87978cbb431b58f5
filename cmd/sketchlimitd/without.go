package main

import (
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// families begin the names of variables of envoyproxy/ratelimit, also of later
// versions, and of our own. One that begins so and is no setting has no effect: it
// belongs to what is not there, or is misspelt.
var families = []string{
	"BACKEND_", "CACHE_KEY_", "CONFIG_GRPC_XDS_", "CONFIG_TYPE", "DEBUG_", "EXPIRATION_JITTER_", "EXTRA_TAGS", "FORCE_START_", "GRPC_CLIENT_",
	"GRPC_HOST", "GRPC_MAX_", "GRPC_PORT", "GRPC_SERVER_", "GRPC_UDS", "HEALTHY_", "HTTP_IDLE_", "HTTP_READ_", "LIMIT_", "LOCAL_CACHE_", "LOG_",
	"MAX_CONCURRENT_REQUESTS", "MEMCACHE_", "MEMORY", "MERGE_", "NEAR_LIMIT_", "OPERATOR_", "OVERRIDE_", "PROMETHEUS_", "QUOTA_", "REDIS_",
	"REQUEST_TIMEOUT", "RESPONSE_", "RUNTIME_", "SHADOW_", "SHARED_", "SHUTDOWN_", "SNAPSHOT_", "STATS_", "STATSD_", "STOP_CACHE_", "TRACING_",
	"USE_", "XDS_CLIENT_",
}

// ofKubernetes are variables that Kubernetes sets in each container for each service of
// the namespace, such as one named redis.
var ofKubernetes = regexp.MustCompile(`^\w+(_SERVICE_(HOST|PORT)(_\w+)?=|_PORT_[0-9]+_(TCP|UDP|SCTP)(_\w+)?=|_PORT=(tcp|udp|sctp)://)`)

// tellWithoutEffect logs once which variables have no effect, by name alone: some hold
// passwords.
func tellWithoutEffect(logger *slog.Logger) {
	known := map[string]bool{}
	variables(reflect.TypeFor[settings](), known)
	var found []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		ours := slices.ContainsFunc(families, func(family string) bool { return strings.HasPrefix(name, family) })
		if ours && !known[name] && !ofKubernetes.MatchString(variable) {
			found = append(found, name)
		}
	}
	if len(found) > 0 {
		slices.Sort(found)
		logger.Warn("variables that have no effect here", "names", strings.Join(found, " "))
	}
}

// variables adds the names of all variables of settings.
func variables(settings reflect.Type, names map[string]bool) {
	fields(settings, func(f reflect.StructField) { names[f.Tag.Get("envconfig")] = true })
}

// fields calls a function with each variable of settings.
func fields(settings reflect.Type, visit func(reflect.StructField)) {
	for i := range settings.NumField() {
		if f := settings.Field(i); f.Type.Kind() == reflect.Struct {
			fields(f.Type, visit)
		} else {
			visit(f)
		}
	}
}

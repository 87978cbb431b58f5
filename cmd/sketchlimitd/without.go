package main

import (
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
)

// withoutEffect are variables of envoyproxy/ratelimit that belong to what is not there, unless they are settings; those that
// end in an underscore stand for all that begin so.
var withoutEffect = []string{
	"REDIS_", "MEMCACHE_", "BACKEND_TYPE", "LOCAL_CACHE_SIZE_IN_BYTES", "EXPIRATION_JITTER_MAX_SECONDS", "TRACING_",
}

// tellWithoutEffect logs once which variables have no effect, by name alone: some hold passwords.
func tellWithoutEffect(logger *slog.Logger) {
	known := map[string]bool{}
	variables(reflect.TypeFor[settings](), known)
	var found []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !known[name] && slices.ContainsFunc(withoutEffect, func(w string) bool {
			return name == w || strings.HasSuffix(w, "_") && strings.HasPrefix(name, w)
		}) {
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

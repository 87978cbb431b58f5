package caddylimit

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
)

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Handler) UnmarshalJSON(b []byte) error {
	type plain Handler
	return unmarshalJSON(b, (*plain)(h), "snapshot_interval")
}

// UnmarshalJSON implements [json.Unmarshaler].
func (z *Zone) UnmarshalJSON(b []byte) error {
	type plain Zone
	return unmarshalJSON(b, (*plain)(z), "max_events", "window", "burst", "keys", "headroom", "memory")
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Redis) UnmarshalJSON(b []byte) error {
	type plain Redis
	return unmarshalJSON(b, (*plain)(r), "interval")
}

// unmarshalJSON refuses zeros where the default stands for a number that is not there:
// whoever writes a 0 does not mean the default.
func unmarshalJSON(b []byte, to any, above0 ...string) error {
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	for option, value := range fields {
		if slices.Contains(above0, option) && (value == 0.0 || value == "0" || value == "0s") {
			return fmt.Errorf("%s %v, must be above 0, or left out", option, value)
		}
	}
	return caddy.StrictUnmarshalJSON(b, to)
}

// Command caddylimit uses module caddylimit as somebody who gets it by its version:
// Caddy takes a Caddyfile with its directive.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/sketchlimit/sketchlimit/caddylimit"
)

const caddyfile = `{
	admin off
	auto_https off
}
http://127.0.0.1:1 {
	sketch_rate_limit {
		zone api {
			key {client_ip}
			window 1m
			events 100
		}
	}
}
`

func main() {
	dir, err := os.MkdirTemp("", "caddylimit")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_DATA_HOME", dir)
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	if err != nil {
		log.Fatal(err)
	}
	var config caddy.Config
	if err := json.Unmarshal(adapted, &config); err != nil {
		log.Fatal(err)
	}
	if err := caddy.Validate(&config); err != nil {
		log.Fatal(err)
	}
}

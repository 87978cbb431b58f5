// Command rules uses module rules as somebody who gets it by its version.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/sketchlimit/sketchlimit/rules"
)

const file = `
domain: api
descriptors:
  - key: client
    rate_limit: {unit: day, requests_per_unit: 1}
`

func main() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		log.Fatal(err)
	}
	loaded, err := rules.Load(64<<20, path)
	if err != nil {
		log.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if admitted, _ := loaded.Take("api", 1, rules.Descriptor{{Key: "client", Value: "ann"}}); admitted != want {
			log.Fatalf("admitted %v, want %v", admitted, want)
		}
	}
}

module github.com/sketchlimit/sketchlimit/examples/restart

go 1.25

replace (
	github.com/sketchlimit/sketchlimit => ../..
	github.com/sketchlimit/sketchlimit/siphash => ../../siphash
)

require (
	github.com/sketchlimit/sketchlimit v0.0.0-00010101000000-000000000000
	github.com/sketchlimit/sketchlimit/siphash v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/bits-and-blooms/bitset v1.29.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dchest/siphash v1.2.3 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

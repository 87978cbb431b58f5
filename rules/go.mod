module github.com/sketchlimit/sketchlimit/rules

go 1.25.0

replace github.com/sketchlimit/sketchlimit => ..

require (
	github.com/sketchlimit/sketchlimit v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v4 v4.0.0
)

require (
	github.com/bits-and-blooms/bitset v1.29.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)

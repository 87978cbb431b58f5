module github.com/sketchlimit/sketchlimit/envoylimit

go 1.26.0

replace github.com/sketchlimit/sketchlimit => ..

replace github.com/sketchlimit/sketchlimit/rules => ../rules

require (
	github.com/envoyproxy/go-control-plane/envoy v1.40.0
	github.com/sketchlimit/sketchlimit v0.0.0-00010101000000-000000000000
	github.com/sketchlimit/sketchlimit/rules v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/bits-and-blooms/bitset v1.29.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2 // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/grpc v1.85.0 // indirect
)

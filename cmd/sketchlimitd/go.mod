module github.com/sketchlimit/sketchlimit/cmd/sketchlimitd

go 1.26.0

toolchain go1.26.9

replace github.com/sketchlimit/sketchlimit => ../..

replace github.com/sketchlimit/sketchlimit/rules => ../../rules

replace github.com/sketchlimit/sketchlimit/promlimit => ../../promlimit

replace github.com/sketchlimit/sketchlimit/redislimit => ../../redislimit

require (
	github.com/DataDog/datadog-go/v5 v5.9.1
	github.com/cenkalti/backoff/v5 v5.0.3
	github.com/envoyproxy/go-control-plane v0.14.0
	github.com/envoyproxy/go-control-plane/envoy v1.40.0
	github.com/envoyproxy/go-control-plane/ratelimit v0.1.1-0.20260729145720-a2d8c7492908
	github.com/fsnotify/fsnotify v1.10.1
	github.com/kelseyhightower/envconfig v1.4.0
	github.com/lyft/gostats v0.4.14
	github.com/prometheus/client_golang v1.25.0
	github.com/prometheus/statsd_exporter v0.31.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/sketchlimit/sketchlimit v0.0.0-00010101000000-000000000000
	github.com/sketchlimit/sketchlimit/promlimit v0.0.0-00010101000000-000000000000
	github.com/sketchlimit/sketchlimit/redislimit v0.0.0-00010101000000-000000000000
	github.com/sketchlimit/sketchlimit/rules v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v4 v4.0.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)

require (
	cel.dev/expr v0.25.3 // indirect
	github.com/Microsoft/go-winio v0.5.0 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/bits-and-blooms/bitset v1.29.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2 // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/spf13/cobra v1.10.2
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)

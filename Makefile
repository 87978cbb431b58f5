# Every module of the repository. In a checkout they find each other by replace directives;
# scripts/release makes releases, which have none.
MODULES := $(patsubst %/go.mod,%,$(shell git ls-files 'go.mod' '*/go.mod'))
MODULES := $(subst go.mod,.,$(MODULES))

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The race detector needs a C compiler; without one the tests run without it.
RACE := $(if $(shell command -v $$(go env CC) 2>/dev/null),-race)

# What help lists is a command, and no file.
.PHONY: race/root race/stress $(shell sed -n 's/^\([a-z-]*\):.* ##.*/\1/p' Makefile) $(MODULES:%=test/%) $(MODULES:%=lint/%) $(RACED:%=alone/%)

NESTED := $(filter-out .,$(MODULES))

# Where goroutines share what is ours: modules, and packages of the root module. stress has each framework, and so all of
# contrib.
SHARED := rules redislimit grpclimit caddylimit corednslimit cmd/sketchlimitd
SHARED_PACKAGES := . ./budget ./exact ./httplimit ./inflight ./topkeys ./metrics ./internal/clock ./internal/engine ./internal/tests

test: test/. ## every test of every module with the race detector, the root module first, then two at once
	@$(if $(RACE),,echo "no C compiler: tested without the race detector")
	@$(MAKE) --no-print-directory -j2 $(NESTED:%=test/%)

$(MODULES:%=test/%): test/%: # every test of one module
	@cd $* && go test -timeout 30m $(RACE) $(SHORT) ./...

# The tests of these run under the race detector anyway, and here those alone that it leaves out.
RACED := redislimit caddylimit corednslimit cmd/sketchlimitd

# Three at once, since those of the services wait more than they compute.
nested: ## the tests of every nested module without the race detector, but for those that make race runs whole
	@$(MAKE) --no-print-directory -j3 $(patsubst %,test/%,$(filter-out $(RACED),$(NESTED))) $(RACED:%=alone/%) RACE=

$(RACED:%=alone/%): alone/%:
	@cd $* && names=$$(git ls-files '*_test.go' | xargs awk '/^func Test/ { split($$2, name, "(") } \
		/testkit\.(OneGoroutine|Computes|Weighs)/ { print name[1] }' | sort -u | paste -sd '|') && \
		if [ -n "$$names" ]; then go test -run "^($$names)$$" ./...; fi

race: ## the race detector where goroutines share what is ours, without what computes for seconds, three modules at once
	@$(MAKE) --no-print-directory -j3 race/root race/stress $(SHARED:%=test/%) SHORT=-short

# What -short leaves out though goroutines share it runs whole.
race/root:
	@go test $(RACE) $(SHORT) $(SHARED_PACKAGES)
	@go test $(RACE) -run ConcurrentMovingClocks ./budget

race/stress:
	@cd stress && go test -timeout 30m $(RACE) $(SHORT) ./...

ROWS := . ./tune ./bench/ordinary ./bench/tune

rows: ## the statistical tests that the default run leaves out, some of them smaller: four minutes of two processors
	@go test -tags rows -run "$$(awk '/^func Test/ { split($$2, name, "(") } \
		/testkit\.(NeedsLong|Some|Long)/ { print name[1] }' $(ROWS:%=%/*_test.go) | sort -u | paste -sd '|')" $(ROWS)

long: ## the statistical tests at full size, without the race detector: ten minutes of two processors
	@git grep -lE 'testkit\.(NeedsLong|Some|Divisor|Long)\b' -- '*_test.go' | xargs dirname | sort -u | sed 's|^|./|' | \
		xargs go test -tags long -timeout 60m

# Tests in which many goroutines share a limiter, the dearest left out, and those that break each claim.
ASSERTED = (DoEach|Group|OverAdmits)UnderConcurrency|SpareAtOnce|ConcurrentUse|Claims|OrderOfLocks|Places|ConcurrentFixed|SettleTwice

invariants: ## what decides, with its claims and the order of its locks asserted: about a minute of processor time
	@go test $(RACE) -tags invariants -short -run '$(ASSERTED)' . ./internal/tests ./internal/engine ./budget

lint: ## formatting, vet and staticcheck, two modules at once
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
		test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	@$(MAKE) --no-print-directory -j2 $(MODULES:%=lint/%)

lint/natslimit: LINTED := -tests=false # or it would go through all of the server that the tests embed

$(MODULES:%=lint/%): lint/%: # vet and staticcheck of one module
	@cd $* && go vet ./... && go run $(STATICCHECK) $(LINTED) ./...

ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
FORMS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sketchlimit/forms-1

lint-github: $(FORMS) ## the forms and workflows of .github, by actionlint, yamllint and the schemas; needs python3-venv
	@go run $(ACTIONLINT) -shellcheck= -pyflakes=
	@$(FORMS)/bin/yamllint -s .github
	@$(FORMS)/bin/check-jsonschema -q --builtin-schema vendor.dependabot .github/dependabot.yml
	@$(FORMS)/bin/check-jsonschema -q --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	@$(FORMS)/bin/check-jsonschema -q --builtin-schema vendor.github-issue-forms \
		$(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

$(FORMS):
	@python3 -m venv $@ && $@/bin/pip install -q yamllint==1.38.0 check-jsonschema==0.39.0 || { rm -rf $@; exit 1; }

MKDOCS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sketchlimit/mkdocs-1

site: $(MKDOCS) ## the site of README.md, docs/ and notes/, into the folder site; needs python3-venv
	@$(MKDOCS)/bin/python scripts/site

$(MKDOCS):
	@python3 -m venv $@ && $@/bin/pip install -q mkdocs==1.6.1 mkdocs-material==9.8.2 || { rm -rf $@; exit 1; }

strangers: ## a release of the working tree, every module of which is installed or got as strangers do: three minutes
	@scripts/strangers

vuln: ## known vulnerabilities in what every module calls, where the database of vuln.go.dev can be reached
	@scripts/vuln

fuzz: ## every fuzz target for FUZZTIME each, 60s unless given
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

image: ## the steps of deploy/Dockerfile, run in a folder as nobody: one minute or two
	SKETCHLIMIT_IMAGE=1 go test -C deploy -run Dockerfile -v .

soak: ## ten minutes under load, for memory, goroutines, over-admissions and false denials
	go run -C stress ./soak

clock: ## what a process that is stopped decides first, and what 10,000 limiters cost: nine minutes, on a quiet machine
	go run -C stress ./clock

ADVERSARY_FOR ?= 1h

adversary: ## an hour of attacks, judged by exact oracles; ADVERSARY_FLAGS="-seed n -kind k" repeats one
	go run -C stress ./adversary -for $(ADVERSARY_FOR) $(ADVERSARY_FLAGS)

attack: ## what it takes to have a chosen client denied, by what the attacker sees
	go run -C stress ./attack

bench: ## the library's own benchmarks
	go test -run '^$$' -bench . ./bench ./bloom ./cms

COMBINATIONS ?= 200

combinations: ## so many random combinations of flags of every command: an hour; lists the slowest and the largest
	SKETCHLIMIT_COMBINATIONS=$(COMBINATIONS) nice -n 10 go test -C cmd/sketchlimit -count=1 -v -run Combinations -timeout 6h .

report: ## the accuracy report of the embedded trace, as a page
	go run -C cmd/sketchlimit . report --html $(CURDIR)/report.html

# Where the library, and the commands and modules that services use, build without cgo. The gate vets linux/386.
CROSS := darwin/arm64 windows/amd64
CROSS_MODULES := . rules redislimit natslimit $(filter cmd/%,$(MODULES))

cross: ## builds the library for wasip1 and linux/arm64, and with rules, redislimit, natslimit and the commands for darwin and windows
	GOOS=wasip1 GOARCH=wasm go build ./...
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build ./...
	@for pair in $(CROSS); do for module in $(CROSS_MODULES); do \
		echo "$$pair $$module"; \
		CGO_ENABLED=0 GOOS=$${pair%/*} GOARCH=$${pair#*/} go build -C $$module -o /dev/null ./... || exit 1; \
	done; done

instructions: ## instructions of one call, by callgrind, beside those of the commit BASE if given: half a minute each
	@go run ./bench/instructions -base "$(BASE)"

replay: ## ten thousand random configurations, whose decisions, memory and rates are to be those of the commit BASE
	@go run ./bench/replay -base "$(BASE)"

bench-floor: ## decisions beside the floor and the control, twenty processes one after another: ten minutes and more
	go run ./bench/floor -turns 20

bench-peers: ## this library beside others, and its latencies; writes notes/tables/peers.md
	go run -C bench/peers . -write ../../notes/tables/peers.md -plot ../../notes/tables/latency.png

bench-overload: ## beyond the plan, this library beside other limiters, for hours; writes notes/tables/overload.md
	go run -C bench/peers ./overload -write ../../notes/tables/overload.md -plot ../../notes/tables/overload.png

bench-budget: ## three ways to limit costs that show only afterwards, made-up ones and a trace's; writes notes/tables/budgets.md
	go run -C bench/peers ./budgets -write ../../notes/tables/budgets.md

bench-sketches: ## sketches of the literature as limiters, for an hour; writes notes/tables/sketches.md
	go run -C bench/peers ./sketches -write ../../notes/tables/sketches.md -plot ../../notes/tables/sketches.png

TRACES = $(or $(DATA),tune/testdata)

bench-tune: ## predictions beside replays at full size, and of the traces in the folder DATA, for hours; writes notes/tables/tuning.md
	go run ./bench/tune -data "$(TRACES)" -write notes/tables/tuning.md

bench-http: ## what the middleware costs the example service, under load; writes notes/http.md
	go run -C examples/service ./bench -write ../../notes/http.md

bench-snapshots: ## how long decisions wait for a snapshot of 256 MiB; 100,000 damaged snapshots; 200 kills while saving
	go test -run '^$$' -bench Snapshot -benchtime 3x ./internal/tests ./bench
	go test -v -run 'SnapshotCorrupted|SnapshotKilled' ./internal/tests -corruptions 100000 -kills 200

bench-redis: ## through Redis, beside redis_rate; needs redis-server; writes notes/tables/redis.md
	go run -C bench/peers/redis . -write ../../../notes/tables/redis.md

bench-synced: ## nodes that share a limit: units, clocks apart, times, bytes, Redis killed; 13 minutes
	go run -C redislimit ./internal/syncbench over
	go run -C redislimit ./internal/syncbench over -skew 5s
	go run -C redislimit ./internal/syncbench pace
	go run -C redislimit ./internal/syncbench volume
	go run -C redislimit ./internal/syncbench kill

bench-leased: ## Leased beside other forms: decided locally, withheld, bytes; an hour
	go test -run '^$$' -bench Forms -benchtime 1x -timeout 3h ./sharing/leased

storm: ## Redis, a Redis Cluster and a NATS cluster killed, paused, emptied and cut off under load: six minutes
	go test -C redislimit -run '^$$' -bench Storm -benchtime 1x -timeout 1h .
	go test -C natslimit -run '^$$' -bench Storm -benchtime 1x -timeout 1h .

bench-envoy: ## the rate limit service beside envoyproxy/ratelimit with Redis, under load; writes notes/envoy.md
	go run -C bench/envoy . -write ../../notes/envoy.md

bench-caddy: ## Caddy with the handler beside Caddy without, under load; needs wrk; five minutes
	go run -C caddylimit ./bench -turns 15 -duration 4s

bench-coredns: ## the plugin of CoreDNS beside a table, in a flood from a million forged networks: nine minutes
	go run -C corednslimit ./flood
	go run -C corednslimit ./flood -udp -for 100s -fill 50s -flood-qps 10000 -innocents 200 -victims 5 -victim-qps 500

answers-envoy: ## 100,000 random requests to both services: every answer compared; needs redis-server; two minutes
	go test -C bench/envoy -count=1 -run Differential . -requests 100000 -files 24

soak-envoy: ## the rate limit service under load for ten minutes, with a reload every second
	go run -C bench/envoy ./soak

strict-sizes: ## how often Strict denies light keys with the cells of redislimit/layout.go: minutes
	go test -C redislimit -run '^$$' -bench Sizes -benchtime 1x -timeout 1h

bench-ordinary: ## limiters sized by Keys alone in ordinary use, and at multiples of it: twenty minutes
	go run ./bench/ordinary -loads 1,2,4,10

bench-audit: ## the rates that limiters count of themselves beside those of all requests, on the traces in the folder DATA: minutes
	go run ./bench/audit -data "$(DATA)" -seeds 20

bench-traces: ## plans for the traces in the folder DATA, held against replays with other seeds: minutes
	go run ./bench/tune -part traces -data "$(TRACES)"

sizes: ## the table that New sizes limiters by, from package tune: a few minutes
	go run ./bench/sizes -write internal/sizing/sizes_table.go

sizing: ## the sizing table of docs/sizing.md, by what New takes
	go run ./bench/sizes -page docs/sizing.md

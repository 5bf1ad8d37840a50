# SPDX-License-Identifier: Apache-2.0
# One command a job. `make help` lists them.

SHELL := bash
BIN := .tmp/bin
BUF := $(BIN)/buf
LINT := $(BIN)/golangci-lint
BUF_VERSION := 1.75.0
INSPECTOR_VERSION := 2.12.0
NODE_VERSION := 22.23.3
VERSION ?= 0.1.0-dev
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
FUZZTIME ?= 10s

.DEFAULT_GOAL := help
.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build the sidecar into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/sidecar ./cmd/sidecar

.PHONY: test
test: ## Run every test with the race detector, real peers included
	go test -race -timeout 15m ./...
	cd conformance && go test -race -timeout 15m ./...
	cd bench && go test -timeout 10m ./...

.PHONY: test-short
test-short: ## Run the tests of the main module without the race detector
	go test ./...

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (default 10s)
	@for pkg in $$(go list ./...); do \
	  dir=$$(go list -f '{{.Dir}}' $$pkg); \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go 2>/dev/null | sed 's/func //'); do \
	    echo "$$pkg $$target"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -parallel 2 $$pkg || exit 1; \
	  done; \
	done

.PHONY: lint
lint: $(LINT) $(BUF) ## Check formatting, vet, golangci-lint, and the Protobuf files
	@out=$$(gofmt -l $$(git ls-files '*.go' | grep -v '^gen/')); if [ -n "$$out" ]; then echo "not gofmt-ed: $$out"; exit 1; fi
	go vet ./...
	cd conformance && go vet ./...
	cd bench && go vet ./...
	$(LINT) run ./... ./testdata/schemas
	$(BUF) lint
	$(BUF) format -d --exit-code proto

.PHONY: breaking
breaking: $(BUF) ## Report breaking changes of the Protobuf contract (advisory until the first tag)
	$(BUF) breaking --against '.git#branch=main' || echo "breaking changes: advisory until the first tag"

.PHONY: generate
generate: $(BUF) ## Regenerate code, descriptor sets and documents
	rm -rf gen
	$(BUF) generate
	go test ./errmap -run TestDocument -update >/dev/null
	go test ./internal/config -run TestReference -update >/dev/null
	$(BUF) build --path proto/outrigger/demo --as-file-descriptor-set --exclude-imports -o internal/demo/demo.binpb

.PHONY: checkgenerate
checkgenerate: generate ## Fail where generated files differ from what is committed
	@if [ -n "$$(git status --porcelain -- gen internal/demo docs)" ]; then git status --short -- gen internal/demo docs; git diff -- gen internal/demo docs | head -50; exit 1; fi

.PHONY: bench
bench: ## Measure the sidecar against a direct gRPC call (writes nothing; see docs/benchmarks.md)
	cd bench && go run . $(BENCHFLAGS)

.PHONY: inspector
inspector: build ## Drive the demo with the MCP Inspector's command line, over HTTP and stdio, in every era
	conformance/inspector.sh $(NODE_VERSION) $(INSPECTOR_VERSION)

.PHONY: tools
tools: $(LINT) $(BUF) ## Install the pinned tools into .tmp/bin

$(BUF):
	@mkdir -p $(BIN) .tmp/buf
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix .tmp/buf @bufbuild/buf@$(BUF_VERSION)
	cp -L .tmp/buf/node_modules/@bufbuild/buf-*/bin/buf $(BUF)

$(LINT): .ci/tools/golangci.mod
	@mkdir -p $(BIN)
	go build -modfile=.ci/tools/golangci.mod -o $(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

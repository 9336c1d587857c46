# The verbs of the project; CI calls the same ones (.ci/run). On a fresh Debian with Go, gcc, make and
# Node 20, `make run` and `make test` need nothing else.

GO       ?= go
ADDR     ?= 127.0.0.1:8080
DATA     ?= ./data
FUZZTIME ?= 1m
SOAK     ?= 5m
SEED     ?= 1
PKG      ?= ./...

# What hostile does, and how long a write beside it may take in 99 of 100.
CHANGES   ?= 100000
MESSAGES  ?= 100000
DOCUMENTS ?= 10000
KILLS     ?= 100
RUNS      ?= 10000
P99       ?= 100ms

PAGE     := web/ui/dist/index.html
SOURCES  := $(shell find web/ui/src web/ui/public web/ui/index.html web/ui/*.json web/ui/*.ts web/ui/*.js lease/testdata -type f 2>/dev/null)
WASM     := web/ui/wasm/playground.wasm
KERNEL   := $(shell find lease -name '*.go' -not -name '*_test.go')

.DEFAULT_GOAL := help
.PHONY: help run build binary test race simulate hostile soak fuzz lint web shots bench

help: ## Show the verbs
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

run: build ## Build the page and the binary, and start the server on ./data (ADDR=, DATA=)
	bin/cowrite serve --addr $(ADDR) --data $(DATA)

ifneq ($(shell command -v npm),)
build: web binary ## Build bin/cowrite, with the page if Node is there
else
build: binary
	@echo 'Node is not there: bin/cowrite has no page to show' >&2
endif

binary:
	$(GO) build -o bin/cowrite ./cmd/cowrite

web: $(PAGE) ## Build the page that the binary carries

$(PAGE): web/ui/node_modules/.package-lock.json $(SOURCES) $(WASM)
	npm --prefix web/ui run build
	@touch $@

# The lease kernel of the page's playground, with the loader of the same Go beside it.
$(WASM): $(KERNEL) go.mod
	GOOS=js GOARCH=wasm $(GO) build -trimpath -ldflags='-s -w' -o $@ ./lease/playground/wasm
	install -m 644 "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js" $(@D)/wasm_exec.js

shots: web ## Picture every page, light and dark, on a desktop and a phone, into web/ui/shots
	mkdir -p web/ui/shots
	COWRITE_SHOTS=$(CURDIR)/web/ui/shots COWRITE_README_SHOTS=$(CURDIR)/web/docs $(GO) test -count=1 -timeout 20m ./web/ui -run '^TestPage$$' -page.only looks

web/sdk/dist/index.js: web/sdk/node_modules/.package-lock.json $(wildcard web/sdk/src/*.ts web/sdk/*.json)
	npm --prefix web/sdk run build
	@touch $@

# npm packages, as the lock file names them.
%/node_modules/.package-lock.json: %/package-lock.json
	npm --prefix $* ci --no-audit --no-fund
	@touch $@

# Go runs every test, those in Node and in Chromium too. -count=1: what those tests start is no part of what
# Go knows them to depend on, so a remembered result would be worth nothing.
test: ## Install what the tests need and run every test, with the race detector
	.ci/packages
	$(MAKE) build web sync/e2e/node_modules/.package-lock.json web/sdk/dist/index.js
	$(GO) test -race -count=1 -timeout 30m ./...

race: ## Run the tests with the race detector, with what is installed and built (PKG=./...)
	$(GO) test -race $(PKG)

simulate: ## Run the lease simulation (10,000 seeds of 1,000 steps), 200 histories of leases over HTTP and 10,000 sequences of edits
	$(GO) test ./lease -run Simulation -sim.seeds 10000 -timeout 60m
	$(GO) test ./doc -run EditsAreForkAndMerge -forms.sequences 10000 -timeout 60m
	$(GO) test ./cmd/cowrite -run LeasesAreLinearizable -linear.seeds 200 -timeout 60m

hostile: ## Attack a server with damaged CHANGES, MESSAGES and DOCUMENTS (SEED=1, P99=100ms), kill KILLS of its workers, and let peers meet over bad lines in RUNS
	$(GO) test ./cmd/cowrite -run '^TestHostilePeers$$' -count=1 -timeout 120m -v -seed $(SEED) \
		-hostile.changes $(CHANGES) -hostile.messages $(MESSAGES) -hostile.documents $(DOCUMENTS) -hostile.calm 300 -hostile.p99 $(P99) -keep-crashers
	$(GO) test ./cmd/cowrite -run '^TestKilledWorkers$$' -count=1 -timeout 60m -v -seed $(SEED) -kills $(KILLS)
	$(GO) test ./crdt -run '^TestPeersConverge$$' -count=1 -timeout 60m -v -rapid.seed $(SEED) -rapid.checks $(RUNS)

soak: sync/e2e/node_modules/.package-lock.json ## Have eight agents write one document for SOAK (5m), over lines that break
	COWRITE_SOAK=$(SOAK) $(GO) test -run '^TestEightAgents$$' -count=1 -timeout 30m -v ./sync/e2e

fuzz: ## Run each fuzz target for FUZZTIME (1m)
	FUZZTIME=$(FUZZTIME) .ci/fuzz

lint: ## Check format, vet, static analysis, types, the WebAssembly build and go.mod
	.ci/lint

bench: build sync/e2e/node_modules/.package-lock.json ## Measure leases, agents, memory and sync, beside a floor and the reference server; the page; then the benchmarks (PKG=./...)
	bin/cowrite bench lease
	bin/cowrite bench agent
	bin/cowrite bench memory --check
	bin/cowrite bench sync --compare --reference sync/e2e/reference-server.mjs
	node web/ui/bench/page.mjs
	$(GO) test -run '^$$' -bench . -benchmem $(PKG)

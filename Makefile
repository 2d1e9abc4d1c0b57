# Slipring. `make help` lists the targets; everything goes through the go command, this file only names the flags.

export GOTOOLCHAIN = go1.27.3
GO ?= go

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Symbols stay in: people look at it with perf.
LDFLAGS  = -X main.version=$(VERSION) -X github.com/slipringmq/slipring.Version=$(VERSION)

# Knobs. N: rounds of a campaign. SEED: where its random numbers start. TIME: seconds for fuzz, a duration or count for bench.
N    ?=
SEED ?= 1
TIME ?=

# A user without a home of its own (a service account) keeps the go command's files in the checkout.
ifeq ($(shell test -w "$(HOME)" && echo yes),)
export HOME := $(CURDIR)/.home
export GOPATH := $(HOME)/go
export GOCACHE := $(HOME)/cache
endif

# Further flags for `go test`; .ci/run asks for -json here.
TESTFLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help build demo test race invariants lint fuzz crash crash-sim bench

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  knobs: N=rounds  SEED=start of the random numbers  TIME=seconds (fuzz), duration or 100x (bench)'

# Static binaries: no cgo, no paths of the machine that built them.
build: ## slipringd, slipring and the floor programs of perf/cmd, into bin/
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/... ./perf/cmd/...

demo: build ## stream GOROOT/src through a broker that is killed half way, compare line for line
	$(GO) run ./scripts/demo -source "$$($(GO) env GOROOT)/src"

test: ## all tests
	$(GO) test $(TESTFLAGS) ./...

race: ## all tests, the short way, under the race detector (needs a C compiler)
	$(GO) test -race -short -timeout 20m $(TESTFLAGS) ./...

invariants: ## all tests, with released buffers overwritten and owners checked
	$(GO) test -tags invariants -timeout 20m $(TESTFLAGS) ./...

lint: ## gofmt, vet, staticcheck, govulncheck, arrows between packages, purity of shard
	scripts/lint.sh

fuzz: ## every fuzz target in turn, TIME seconds for all together (60)
	TIME='$(or $(TIME),60)' TESTFLAGS='$(TESTFLAGS)' scripts/fuzz.sh

crash: ## SIGKILL a broker under load N times (20), lose nothing acknowledged
	TESTFLAGS='$(TESTFLAGS)' scripts/campaign.sh . '^TestCampaignKill' '$(or $(N),20)' '$(SEED)'

crash-sim: ## N simulated power cuts (10000), lose nothing acknowledged
	TESTFLAGS='$(TESTFLAGS)' scripts/campaign.sh ./shard/sim '^TestCampaignPowerCut' '$(or $(N),10000)' '$(SEED)'

bench: ## all benchmarks, with allocations; TIME is the time or count of each
	$(GO) test -run '^$$' -bench . -benchmem $(if $(TIME),-benchtime=$(TIME)) $(TESTFLAGS) ./...

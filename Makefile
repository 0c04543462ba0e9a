# Everything a developer of Queen types. `make` alone lists it. Written for GNU make 3.81 (macOS) and later.

GO        ?= go
MODULES   := $(shell sed -n 's|^[[:space:]]*\./||p' go.work)
SERVICES  := ingest deliver maintainer console gateway
BIN       := bin
STATE     := .queen
TOOLS     := $(STATE)/bin
# Most test binaries are bound by the one PostgreSQL they share, not by cores: more of them at once only adds connections.
PARALLEL  ?= 2
# What one package may take; the whole run is far below it unless something hangs.
TIMEOUT   ?= 15m
# Narrow a run: make test PACKAGES=queen.internal/pkg/segment RUN=Fuzz
PACKAGES  ?= work
RUN       ?= .
# Rows of make bench; none means all.
ROWS      ?=
ARGS      ?=

VERSION    = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS    = -X main.version=$(VERSION)
# The race detector needs a C compiler; go itself turns cgo off when it finds none.
CGO        = $(shell $(GO) env CGO_ENABLED)
RACE       = $(if $(filter 1,$(CGO)),-race,)
# Tools are built again when their pins or the Go version change.
TOOLSTAMP  = $(TOOLS)/.built-$(shell $(GO) env GOVERSION)

.DEFAULT_GOAL := help
# go spreads its own work over the cores; two targets at once would only fight.
.NOTPARALLEL:
.PHONY: help up down demo build test race e2e bench microbench check fmt format vet lint tidy tidy-check modules tools race-notice

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  Settings of a stack: QUEEN_STACK_DIR EDGE_PORT INGEST DELIVER DETACH; of a run of tests: PACKAGES RUN PARALLEL"

up: $(STATE)/bin/stack ## start PostgreSQL and the five services, show their log; Ctrl-C stops (DETACH=1 returns instead)
	@exec $(STATE)/bin/stack up

down: $(STATE)/bin/stack ## stop a stack that was left running
	@exec $(STATE)/bin/stack down

demo: $(STATE)/bin/demo ## push this repository's history through a running stack and judge the deliveries (ARGS="--help")
	@exec $(STATE)/bin/demo $(ARGS)

build: ## build the five services into bin/
	@mkdir -p $(BIN)
	@for s in $(SERVICES); do \
	  $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/queen-$$s queen.internal/services/$$s || exit 1; done
	@ls -l $(BIN)

test: check race-notice $(STATE)/bin/withpg ## check, then every test and benchmark once against a PostgreSQL of its own
	@$(bench-once)
	@$(call run-tests,$(RACE),$(PACKAGES))

race: race-notice $(STATE)/bin/withpg tools ## only the tests, with the race detector
	@$(call run-tests,$(RACE),$(PACKAGES))

e2e: $(STATE)/bin/withpg tools ## only the tests on real processes: end to end, acceptance
	@$(call run-tests,,queen.internal/test/e2e/... queen.internal/test/acceptance/...)

bench: $(STATE)/bin/bench ## measure the table of docs/benchmarks.md on stacks of its own (ROWS picks, ARGS="--help" tells more)
	@exec $(STATE)/bin/bench -rows '$(ROWS)' $(ARGS)

microbench: $(STATE)/bin/withpg ## every Go benchmark, for figures (RUN selects)
	@$(STATE)/bin/withpg $(GO) test -p 1 -run '^$$' -bench '$(RUN)' -benchmem -timeout 60m $(PACKAGES)

check: format vet lint tidy-check modules ## format, vet, lint, tidy and a build of every module on its own; changes nothing

format: tools
	@out=$$($(TOOLS)/gofumpt -l $(MODULES)); if [ -n "$$out" ]; then echo "gofumpt would change (make fmt):"; echo "$$out"; exit 1; fi

vet:
	@$(GO) vet $(PACKAGES)

lint: tools ## staticcheck with all checks, errcheck
	@$(TOOLS)/staticcheck -checks all $(PACKAGES)
	@$(TOOLS)/errcheck -exclude lint/errcheck.txt $(PACKAGES)

fmt: tools ## format every Go file
	@$(TOOLS)/gofumpt -w $(MODULES)

tidy: ## go mod tidy in every module
	@for m in $(MODULES) lint; do (cd $$m && GOWORK=off $(GO) mod tidy) || exit 1; done

tidy-check:
	@for m in $(MODULES) lint; do (cd $$m && GOWORK=off $(GO) mod tidy -diff) || { echo "$$m/go.mod is not tidy (make tidy)"; exit 1; }; done

# A workspace hides a require line that is missing; images and users of one module do not have the workspace. vet reads
# the tests as well.
modules:
	@for m in $(MODULES); do (cd $$m && GOWORK=off $(GO) build -o /dev/null ./... && GOWORK=off $(GO) vet ./...) \
	  || { echo "$$m does not build with GOWORK=off"; exit 1; }; done

tools: $(TOOLSTAMP)

$(TOOLSTAMP): lint/go.mod lint/go.sum
	@mkdir -p $(TOOLS)
	@echo "building the tools pinned in lint/go.mod"
	@cd lint && GOWORK=off $(GO) build -o ../$(TOOLS)/ tool
	@touch $@

# go decides what is out of date, so these are built each time.
.PHONY: $(STATE)/bin/stack $(STATE)/bin/demo $(STATE)/bin/bench $(STATE)/bin/withpg
$(STATE)/bin/stack:
	@$(GO) build -ldflags '$(LDFLAGS)' -o $@ queen.internal/compose/local/cmd/stack

$(STATE)/bin/demo:
	@$(GO) build -ldflags '$(LDFLAGS)' -o $@ queen.internal/compose/demo

$(STATE)/bin/bench:
	@$(GO) build -o $@ queen.internal/test/load/bench

$(STATE)/bin/withpg:
	@$(GO) build -o $@ queen.internal/pkg/pgserver/cmd/withpg

race-notice:
	@[ -n "$(RACE)" ] || echo "no C compiler: the tests run without the race detector (Debian: apt-get install gcc libc6-dev)"

# Every benchmark still works: one round each, silent unless one fails. Without the race detector, whose link times would
# be the whole cost.
BENCHED = $$(grep -rl --include='*_test.go' '^func Benchmark' $(MODULES) | xargs -n 1 dirname | sort -u)
bench-once = out=$$($(STATE)/bin/withpg $(GO) test -p $(PARALLEL) -run '^$$' -bench . -benchtime 1x -timeout $(TIMEOUT) \
  $$(for d in $(BENCHED); do echo ./$$d; done) 2>&1) || { echo "$$out"; exit 1; }

# No cached results: some tests read files of other modules, which go does not know to depend on.
# $(1): flags of go test, $(2): packages. The list of slowest tests is printed whether or not they passed.
run-tests = status=0; \
  $(STATE)/bin/withpg $(TOOLS)/gotestsum --format pkgname --hide-summary skipped --jsonfile $(STATE)/test.json \
    --packages '$(2)' -- -count 1 -p $(PARALLEL) -timeout $(TIMEOUT) -run '$(RUN)' $(1) || status=1; \
  echo "ten slowest tests:"; \
  $(TOOLS)/gotestsum tool slowest --num 10 --threshold 0s --jsonfile $(STATE)/test.json || status=1; \
  exit $$status

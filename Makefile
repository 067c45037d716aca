# `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOFUMPT := mvdan.cc/gofumpt@v0.12.0

# The root module first, then the nested ones.
MODULES := . $(patsubst %/go.mod,%,$(wildcard examples/go.mod examples/*/go.mod))
CORE := ./store/...,./middleware/...

PKG ?= ./...
TESTFLAGS ?=
BROKER ?= gochannel
STORE ?= sqlite
BENCHFLAGS ?=
DEMOFLAGS ?=

# What a demo's broker and store need started; what is not listed needs nothing.
needs_kafka := kafka
needs_rabbitmq := rabbitmq
needs_sqs := sqs
needs_postgres := postgres
needs_mysql := mariadb
needs_mariadb := mariadb
DEMO_SERVICES := $(sort $(needs_$(BROKER)) $(needs_$(STORE)))

services := .ci/services/services
in_env := . ./.services/env &&

# each COMMAND: in every module, stops at the first that fails.
each = for module in $(MODULES); do (cd $$module && $(1)) || exit; done

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: services
services: ## Install what is missing and start all servers, also those that no test needs yet
	@$(services) up

# What tests and benchmarks ask for today; the other brokers' tests are to come.
TEST_SERVICES := postgres postgres18 pgbouncer mariadb kafka

.PHONY: test-services
test-services:
	@$(services) up $(TEST_SERVICES)

.PHONY: services-down
services-down: ## Stop the servers that were started here
	@$(services) down

.PHONY: test
test: test-services ## All tests, with the race detector, against the real servers (PKG=./store/... TESTFLAGS='-run B02')
	$(in_env) go test -race -tags integration -timeout 30m -coverpkg=$(CORE) -coverprofile=coverage.out $(TESTFLAGS) $(PKG)
	@for module in $(filter-out .,$(MODULES)); do \
		($(in_env) cd $$module && set -x && go test -race -tags integration -timeout 30m $(TESTFLAGS) ./...) || exit; \
	done
	@.ci/coverage coverage.out

.PHONY: test-unit
test-unit: ## The tests that need no server, with the race detector
	@$(call each,go test -race $(TESTFLAGS) ./...)

.PHONY: lint
lint: tools ## Linters, formatting, vet and tidy modules
	@$(call each,set -x && $(CURDIR)/bin/golangci-lint run ./...)
	@$(call each,set -x && $(CURDIR)/bin/golangci-lint run --build-tags integration ./...)
	@unformatted=$$(bin/gofumpt -l .); if [[ -n $$unformatted ]]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	@$(call each,set -x && go vet ./... && go vet -tags integration ./...)
	@$(call each,set -x && go mod tidy -diff)

.PHONY: fmt
fmt: tools ## Format all Go files
	bin/gofumpt -w .

.PHONY: tools
tools:
	@.ci/tool $(GOLANGCI_LINT) $(GOFUMPT)

.PHONY: traps
traps: ## List the traps with their tests, fail when one has none
	@.ci/traps

.PHONY: demo
demo: ## Payments and receipts under kills, the books compared (BROKER=gochannel|kafka STORE=sqlite|postgres|mariadb DEMOFLAGS='-help')
	@$(if $(DEMO_SERVICES),$(services) up $(DEMO_SERVICES) && $(in_env)) $(if $(wildcard examples/go.mod),cd examples && go run ./payments/demo,go run ./examples/payments/demo) -broker=$(BROKER) -store=$(STORE) $(DEMOFLAGS)

.PHONY: bench
bench: test-services ## Benchmarks against peers (BENCHFLAGS='…')
	$(in_env) cd examples/bench && go run . $(BENCHFLAGS)

.PHONY: clean
clean: ## Stop the servers, remove their data, the tools and what tests leave
	@$(services) clean
	rm -rf bin dist coverage.*
	find . -path './.*' -prune -o -type f \( -name '*.test' -o -name '*.out' -o -name '*.prof' \) -exec rm -f {} +

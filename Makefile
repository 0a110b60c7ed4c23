# The commands of daily work. Each one sets up and builds what it needs, so `make serve` and `make test` work on a
# fresh clone; scripts/ holds what they do.
.NOTPARALLEL:
.PHONY: help serve build test lint format asan tsan fuzz third-party clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

serve: ## build and serve the starter model on http://127.0.0.1:8080 (flags: make serve ARGS="--port 9000")
	@scripts/setup
	@scripts/build release redpoll
	@exec build/release/bin/redpoll serve $(ARGS)

build: ## build the program and the tests into build/release
	@scripts/setup
	@scripts/build release

test: ## run every test that needs no accelerator (again although nothing changed: make test FORCE=1)
	@scripts/setup
	@FORCE=$(FORCE) scripts/test release

lint: ## check formatting, clang-tidy, layers and budgets (all files: make lint ALL=1)
	@scripts/setup --dev
	@ALL=$(ALL) scripts/lint

format: ## format the C++ sources in place
	@scripts/setup --dev
	@scripts/format

asan: ## unit tests under the address and undefined-behaviour sanitizers
	@scripts/setup
	@FORCE=$(FORCE) scripts/test asan

tsan: ## unit tests under the thread sanitizer
	@scripts/setup
	@FORCE=$(FORCE) scripts/test tsan

fuzz: ## run each fuzz target for 60 seconds (other lengths: make fuzz FUZZ_SECONDS=600)
	@scripts/setup --dev
	@scripts/fuzz $(or $(FUZZ_SECONDS),60)

third-party: ## write THIRD_PARTY.md from what the program links
	@scripts/setup
	@scripts/build release redpoll
	@scripts/third_party.py

clean: ## delete build/ (what scripts/setup fetched stays in .deps/)
	rm -rf build

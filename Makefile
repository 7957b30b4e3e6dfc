# What people and CI type. Each target is thin: the work is in tools/ and in cargo.
#
# There is one build profile, cargo's `dev` (optimised where computing is, overflow checks on), for the
# tests and the demo, so that nothing is compiled twice; only test programs that compute little are compiled
# without optimisation. `make bench` and `make install` compile with optimisation for release.

CARGO ?= cargo
PREFIX ?= /usr/local
BINARIES := $(abspath $(or $(CARGO_TARGET_DIR),target))/debug
LOGS := $(abspath $(or $(CARGO_TARGET_DIR),target))/logs
FLAGS := --workspace --locked
# Test programs that start services, daemons and machines, and mostly wait for them; the other ones compute.
# tests/tidy.rs holds both lists to what there is.
WAITING_TESTS := conformance documentation examples host
COMPUTING_TESTS := analysis assessment balance c_library causes_report cli daemon distribution enforcement execution_time experiment lock_trace measurement model \
	modes modes_report pubsub report reservation sampling simulator tidy topics trace trigger
# By another name, since `make -n` carries out what names $(MAKE).
SUBMAKE := $(MAKE)
# cargo would take make's jobs for its own.
unexport MAKEFLAGS
# Property tests draw their cases from this seed here, so that what a commit gives depends on the commit
# alone. `make test PROPTEST_RNG_SEED=$$RANDOM` draws others; plain `cargo test` always does.
export PROPTEST_RNG_SEED ?= 20071121

.PHONY: help setup setup-demo demo build test waiting-tests waiting-programs java-tests python-packages \
	computing-tests unit-tests doc-tests lint format clippy loom python zookeeper transports test-xen test-agent-static fuzz bench docs dist image install clean

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## Install what building, testing and the demo need (asks nothing, says what and why)
	@tools/setup build demo test

setup-demo:
	@tools/setup build demo

build: ## Build everything, tests too
	$(CARGO) build $(FLAGS) --all-targets

demo: setup-demo ## A Redis under a reservation beside batch jobs: predicted, measured, reported
	$(CARGO) build $(FLAGS) --bins
	@tools/demo $(BINARIES)

# The parts of `make test` go side by side as far as none needs another. The tests that wait begin when those in
# Java have ended: many need the host for themselves. Everything else takes what CPU time is left.
test: export TAILBOUND_BIN_DIR := $(BINARIES)
# Files for incremental compilation cost a tenth of a build from nothing, which is what CI does.
test: export CARGO_INCREMENTAL := $(if $(wildcard $(BINARIES)/incremental),1,0)
test: export RUSTC_WRAPPER := $(CURDIR)/tools/rustc-for-tests
test: setup ## What CI runs: formatting, clippy, tidiness, every test, every document, Python, Java
	@$(SUBMAKE) --no-print-directory --jobs waiting-tests computing-tests
	@tools/check-advisories

waiting-tests: waiting-programs java-tests
	@tools/test-programs run $(LOGS)/waiting-programs

waiting-programs: format
	@nice tools/test-programs build $(LOGS)/waiting-programs $(FLAGS) --bins $(WAITING_TESTS:%=--test %)

java-tests:
	@tools/logged $(LOGS)/java.log tools/java

python-packages:
	@tools/logged $(LOGS)/python-packages.log tools/python --install

computing-tests: waiting-programs python-packages
	@tools/logged $(LOGS)/computing.log nice -n 19 $(SUBMAKE) --no-print-directory --jobs --output-sync=target \
		unit-tests doc-tests loom python clippy

unit-tests:
	$(CARGO) test $(FLAGS) --no-fail-fast --lib --bins $(COMPUTING_TESTS:%=--test %)

doc-tests:
	$(CARGO) test $(FLAGS) --no-fail-fast --doc

lint: format clippy

format:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy $(FLAGS) --all-targets -- -D warnings

# In a folder of its own, since the flag changes every package that is compiled.
loom: ## Run the memory that threads share in every interleaving with up to three preemptions
	RUSTFLAGS="$(RUSTFLAGS) --cfg loom" LOOM_MAX_PREEMPTIONS=3 $(CARGO) test --locked --lib \
		--package tailbound-shared-memory --package tailbound-trigger --target-dir $(or $(CARGO_TARGET_DIR),target)/loom

python: ## Build the Python package, install it in a virtual environment below target/, test it there
	@tools/python

zookeeper: ## Build the ZooKeeper server and client, and all they need, below java/
	@java/build

# Each feature brings a middleware that is compiled the first time, which takes minutes; none is part of `make test`.
transports: ## The suite of topics over every transport, those too that normal builds leave out
	@tools/setup build transports
	$(CARGO) test --locked --all-features --package tailbound-pubsub --lib --test pubsub
	$(CARGO) test --locked --features cyclone --package tailbound-c-library
	$(CARGO) clippy --locked --all-features --package tailbound-pubsub --all-targets -- -D warnings

test-xen: ## The back end xen-rtds on a real Xen, booted under emulation; builds Xen the first time
	$(CARGO) build $(FLAGS) --bins
	@tools/test-xen $(BINARIES)

test-agent-static: ## The agent of tools/static-programs in an empty root; builds it, which takes a minute
	tools/static-programs $(BINARIES)/static --profile dev tailbound-agent
	TAILBOUND_STATIC_AGENT=$(BINARIES)/static/tailbound-agent \
		$(CARGO) test --locked -p tailbound-modes --test modes agent_empty_root

fuzz: ## Fuzz every parser and socket, a minute each (fuzz/run --seconds N for more); see fuzz/README.md
	@fuzz/run

bench: ## Side-by-side comparisons with peers; each prints a table and writes JSON
	@tools/setup build demo test bench transports
	$(CARGO) build $(FLAGS) --release --bins --examples
	@tools/bench $(CURDIR)/$(or $(CARGO_TARGET_DIR),target)/release

docs: DOCS_TARGET = $(or $(CARGO_TARGET_DIR),target)
docs: ## Make the documentation a site, target/docs/index.html; builds mdBook the first time
	$(CARGO) install --locked --quiet --root $(DOCS_TARGET)/mdbook --version '^0.5' mdbook
	tools/docs $(DOCS_TARGET)/mdbook/bin/mdbook $(DOCS_TARGET)/docs

dist: DIST_TARGET = $(or $(CARGO_TARGET_DIR),target)
dist: ## Make the files of a release in target/dist, and try them in a Debian of their own
	@tools/setup build dist
	$(CARGO) build $(FLAGS) --release --bins
	$(CARGO) build $(FLAGS) --release --package tailbound-c-library
	tools/static-programs $(DIST_TARGET)/static
	tools/dist $(DIST_TARGET)/release $(DIST_TARGET)/static $(DIST_TARGET)/dist
	tools/try-dist $(DIST_TARGET)/dist

image: IMAGE_TARGET = $(or $(CARGO_TARGET_DIR),target)
image: ## Make a container image of the programs, target/image/tailbound.tar
	tools/static-programs $(IMAGE_TARGET)/static
	tools/image $(IMAGE_TARGET)/static $(IMAGE_TARGET)/image/tailbound.tar

# The day of the commit, so that a commit always gives the same pages.
install: PAGE_DATE = $(shell tools/release-date +%F)
install: ## Install programs, units, manual pages, completions and the library for C below PREFIX (/usr/local)
	$(CARGO) build --locked --release --workspace --bins
	$(CARGO) build --locked --release --package tailbound-c-library
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 0755 $(addprefix target/release/,tailbound tailboundd tailbound-agent) $(DESTDIR)$(PREFIX)/bin
	DESTDIR=$(DESTDIR) tools/c-library target/release $(PREFIX)
	target/release/tailbound internal manual --date $(PAGE_DATE) $(DESTDIR)$(PREFIX)/share
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in packaging/systemd/*; do sed 's|=/usr/bin/|=$(PREFIX)/bin/|' "$$unit" \
		>$(DESTDIR)$(PREFIX)/lib/systemd/system/"$${unit##*/}"; done

clean: ## Remove what was built
	$(CARGO) clean

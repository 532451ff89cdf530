# make run     builds and serves, with an embedded store and a demo project
# make test    sets up what tests need and passes them all; ONLY=DialectClaimTests builds and passes those of one target
# make check   what CI runs: everything here but bench and soak
# make soak    the long runs: SOAK=100 has a hundred times the simulations and kills of make check
# make bench   measures, beside nginx; make bench-quick in two minutes
# make package makes the Debian package, the archive and the SDK's archive in dist; make package-test tries them out
# make release makes the package of the last commit at a fixed path: the same bytes wherever the checkout lies
# make console passes all stories of the console in a browser; pictures are in .build/console
# make docs    makes pages of the SDK's catalogue, and the site that the server has at /docs
.PHONY: run build test check console set-up lint imports test-histories test-debug test-threads fuzz smoke package release package-test soak bench bench-quick format clean \
	docs surface

# The SDK's own warnings are errors here. An app's compiler may warn of what this one does not.
export ONYM_STRICT = 1

# A target imports what it declares, and nothing else.
BUILD_TESTS = swift build --build-tests --explicit-target-dependency-import-check error
# All tests run over optimized sources: they take a third of the time, and the program is built beside them. The tests of one target
# run over a debug build, of which a change builds little anew (docs/decisions/0019).
BUILD_ALL_TESTS = $(BUILD_TESTS) -c release
RUN_TESTS = Tools/run-tests -c release
DATA ?= data
LISTEN ?= 127.0.0.1:8080
SOAK ?= 20

run: build
	@dist/onym serve --mode development --data $(DATA) --listen $(LISTEN)

# The program for machines without the toolchain: dist/onym.
build:
	@Tools/setup
	Tools/build

test:
	@Tools/setup tests
	$(if $(ONLY),ONYM_TESTS=$(ONLY) $(BUILD_TESTS),$(BUILD_ALL_TESTS))
	$(if $(ONLY),Tools/run-tests,$(RUN_TESTS) --pooled StoreContractTests)

# Each step has a limit, and the whole run has one (docs/decisions/0019). A run that fails ends in the name of its step.
check: export CONSOLE_STORIES = all
check:
	@command -v python3 >/dev/null || Tools/setup tests
	@Tools/steps 85m set-up=10m lint=6m imports=35m test=35m test-threads=30m smoke=12m package-test=12m fuzz=6m surface=6m docs=6m \
		-- $(MAKE) --no-print-directory

set-up:
	@Tools/setup tests

lint:
	swift format lint --strict --parallel --recursive Sources Tests Examples Package.swift
	Tools/rooms
	Tools/lengths
	Tools/apple

imports:
	@Tools/setup tests
	$(BUILD_ALL_TESTS)

# All histories; `make test` has a sample of them, and `make soak` many more.
test-histories: imports
	ONYM_SOAK=1 ONYM_STORES=memory,sqlite $(RUN_TESTS)

# All tests over a build that is not optimized, which checks what the optimizer may leave out.
test-debug:
	@Tools/setup tests
	$(BUILD_TESTS)
	ONYM_STORES=memory,sqlite Tools/run-tests

# The targets with threads of their own, under the thread sanitizer; the store in PostgreSQL by its own tests. The SDK's random
# programs are on one thread: a tenth of them is enough here. ALL=1 adds the dialects, whose calls go through the same threads.
comma = ,
THREADS = ThreadsTests|HTTPServerTests|EngineTests|StoreSQLiteTests|PostgresTests|TelemetryTests|GatewayTests|OutboundTests|OnymTests
DIALECTS = DialectIDSyncTests|DialectClaimTests|DialectEntitlementsTests|DialectLinkingTests|SignedIdentityTests|OnymMParticleTests|OnymOwlTests|OnymQonversionTests|OnymSentianceTests

test-threads:
	@Tools/setup tests
	$(if $(ALL),,ONYM_TESTS='$(subst |,$(comma),$(THREADS))') swift build --build-tests --sanitize thread --scratch-path .build-threads
	ONYM_SOAK=0.1 ONYM_STORES=memory,sqlite Tools/run-tests --sanitize thread --scratch-path .build-threads \
		--filter '$(THREADS)$(if $(ALL),|$(DIALECTS))'

fuzz:
	@Tools/setup
	Tools/fuzz 30

# The built program, from nothing to a first answer.
smoke: build
	Tools/smoke dist/onym

package: build
	@Tools/setup package
	Tools/package

# The same from the last commit at a fixed path, all built anew: the same bytes wherever the checkout lies.
release:
	@Tools/setup package
	Tools/build-fixed
	Tools/package

# The package, installed and used in a Debian system without the toolchain.
package-test: package
	Tools/package-test

# What apps of the SDK would miss since the last release.
surface:
	Tools/surface

# Every story of the console, as `make check` has them; `make test` has a few.
console: imports
	CONSOLE_STORIES=all $(RUN_TESTS) --filter ConsoleStoryTests

docs:
	Tools/docs

soak:
	@command -v python3 >/dev/null || Tools/setup tests
	@Tools/steps 3000m test-histories=60m simulations=600m disk-in-memory=60m lives=600m fuzz=300m test-debug=60m test-threads=60m build-fixed=60m mistakes=120m \
		-- Tools/soak $(SOAK)

# Two minutes of it, for work in between.
bench-quick:
	@Tools/setup bench
	swift build -c release --product onym
	Benchmarks/run --quick

bench:
	@Tools/setup bench
	swift build -c release
	Benchmarks/run

format:
	swift format --in-place --recursive Sources Tests Examples Package.swift

clean:
	rm -rf .build .build-threads .build-fuzz .build-docs dist

# All work with the sources. `make demo`, `make test` and `make test-all` install what they lack; most other targets
# expect it.
#
# The helpers of bootscope (guest-init, the QEMU plugin) go to target/lib/bootscope, which is ../lib/bootscope as seen
# from target/release and from target/debug alike.

PREFIX ?= /usr/local
# The folders for installed programs, and for zsh's completions.
PROGRAM ?= target/release/bootscope
ZSH ?= zsh/site-functions
KERNEL ?=
SUITE ?= bookworm trixie
FUZZ_SECONDS ?= 12

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
CARGO ?= cargo
LIB := target/lib/bootscope
PLUGIN := bootscope-qemu.so
GUEST_TARGET := $(shell uname -m)-unknown-linux-gnu
# Rust 1.85's clippy has these in its default set, or reports them where later versions do not.
NOT_IN_LATER_CLIPPY := -A clippy::precedence -A clippy::format_collect -A clippy::needless_lifetimes
# The fuzz targets are a workspace of their own. A check links nothing, so any file stands for libFuzzer, which would need
# a C++ compiler.
CHECK_FUZZ := CUSTOM_LIBFUZZER_PATH=$(CURDIR)/fuzz/Cargo.toml $(CARGO) check --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz-check
TOOLS := $(CURDIR)/target/tools
STATIC := RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static"
DEMO_TAKES := four minutes of two CPUs and 4 GB
TEST_TAKES := half an hour of two CPUs and 8 GB
TEST_ALL_TAKES := an hour of two CPUs and 18 GB

.DEFAULT_GOAL := build
.PHONY: build guest-init test-helpers test-capture demo check lint test test-all tests tests-long test-page test-calls test-kernels test-tslog test-exports fuzz bench memory findings book lake test-lake fmt install chroot-test chroot-test-calls helpers install-library install-helpers deb tarball image

build:
	scripts/build-page
	scripts/build-what-if
	$(CARGO) build --locked --release -p bootscope -p qemu-plugin
	@$(MAKE) --no-print-directory helpers

# The other helpers of bootscope; the plugin is built already.
helpers: test-helpers
	$(STATIC) $(CARGO) build --locked --profile capture -p capture --target $(GUEST_TARGET)
	install -D target/$(GUEST_TARGET)/capture/bootscope-capture $(LIB)/bootscope-capture

# Those that tests run as they are. GUEST_ARCHS are the other architectures that guests have.
GUEST_ARCHS := aarch64 riscv64 arm
test-helpers: guest-init
	RUSTFLAGS="-C force-frame-pointers=yes" $(CARGO) build --locked --profile lab -p lab --features kernel
	for arch in $(GUEST_ARCHS); do CARGO="$(CARGO)" scripts/build-guest-init $$arch; done
	install -D target/lab/lab $(LIB)/lab
	install -D -s -m 644 target/release/libbootscope_qemu_plugin.so $(LIB)/$(PLUGIN)

# The capturing program for `make test`: in a third of the CPU time, and ten times as large.
test-capture:
	$(CARGO) rustc --locked -p capture --bin bootscope-capture -- -C target-feature=+crt-static -C relocation-model=static
	install -D -s target/debug/bootscope-capture $(LIB)/bootscope-capture

# Process 1 for guests of this machine's architecture.
guest-init:
	$(STATIC) $(CARGO) build --locked --profile guest -p guest-init --target $(GUEST_TARGET)
	install -D target/$(GUEST_TARGET)/guest/guest-init $(LIB)/guest-init

# The minimum for a demo: compiled quickly, with Debian's SQLite and zstd, without lakes. For another kernel than that
# of the machine's release: make demo KERNEL=/path/to/vmlinuz
demo:
	@echo "make demo: installs Rust, QEMU, gcc and Node.js from Debian where they are missing; takes $(DEMO_TAKES)"
	@scripts/setup demo
	@scripts/build-page --no-tests
	@LIBSQLITE3_SYS_USE_PKG_CONFIG=1 ZSTD_SYS_USE_PKG_CONFIG=1 $(CARGO) build --locked --profile demo --no-default-features \
	    -p bootscope -p qemu-plugin
	@$(MAKE) --no-print-directory guest-init
	@install -D -s -m 644 target/demo/libbootscope_qemu_plugin.so $(LIB)/$(PLUGIN)
	@kernel="$(KERNEL)"; target/demo/bootscope record --kernel "$${kernel:-$$(scripts/fetch-kernel --demo)}" \
	    --append quiet --memory 512M --cpus 1 --force -o boots/demo
	@target/demo/bootscope show boots/demo
	@target/demo/bootscope report boots/demo --force -o boots/demo.html
	@printf '\nOpen this in a browser: file://%s\n' "$(CURDIR)/boots/demo.html"

# Checks to run before each commit: a minute once the dependencies are built.
check: lint
	$(CARGO) test --locked --workspace --no-fail-fast --lib --bin bootscope
	$(CARGO) test --locked -p analysis --test words
	BOOTSCOPE_LIB=$(CURDIR)/$(LIB) $(CARGO) test --locked -p bootscope --test black_box -- kept::

# Checks of form.
lint:
	$(CARGO) fmt --check
	rustfmt --check --edition 2024 --config-path rustfmt.toml lake-engine/src/main.rs lake-engine/ballista-here/src/main.rs
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings $(NOT_IN_LATER_CLIPPY)
	$(CHECK_FUZZ)
	$(CARGO) clippy --locked --profile lab -p lab --features kernel --bin lab -- -D warnings $(NOT_IN_LATER_CLIPPY)
	$(CARGO) clippy --locked --profile lab -p lab --no-default-features --features kernel --bin lab -- -D warnings $(NOT_IN_LATER_CLIPPY)
	RUSTFLAGS="-C force-frame-pointers=yes" $(CARGO) clippy --locked --profile lab -p kernel-examples --features kernel --bin second-kernel -- -D warnings $(NOT_IN_LATER_CLIPPY)
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps -p tslog -p p2buddy -p vmem -p sampler
	scripts/build-page
	npm --prefix page run --silent lint
	scripts/check-licences
	scripts/check-circles
	scripts/check-words
	scripts/check-workflows

# The tests that guard a change, also run by CI. The steps run one after the other, because tests that measure time fail
# beside a busy one. They compile once, so files that cargo keeps for a second build are left out.
test: export CARGO_INCREMENTAL = 0
test:
	@echo "make test: installs what it needs from Debian and npm, builds, and tests; takes $(TEST_TAKES)"
	@scripts/test-steps --room 8; \
	scripts/setup test; \
	scripts/build-page; \
	scripts/build-what-if; \
	$(CARGO) build --locked --release -p qemu-plugin; \
	$(MAKE) --no-print-directory test-helpers test-capture GUEST_ARCHS="aarch64 riscv64"; \
	MAKE="$(MAKE)" scripts/test-steps lint,tests,test-page; \
	echo "make test: passed in $$SECONDS s"

# All tests: before a release, and at the end of a large change.
test-all: export CARGO_INCREMENTAL = 0
test-all:
	@echo "make test-all: installs what it needs from Debian, npm, PyPI and crates.io, builds, and tests all; takes $(TEST_ALL_TAKES)"
	@scripts/test-steps --room 18; \
	scripts/setup test-all; \
	$(MAKE) --no-print-directory build; \
	MAKE="$(MAKE)" scripts/test-steps tests,tests-long,test-exports lint,test-tslog,fuzz; \
	echo "make test-all: passed in $$SECONDS s"

# All tests of Cargo, also those that boot machines. Skipped ones are in the log with the reason, and in the closing
# summary of `make test`. The log also has the kernel of several years that this run boots.
tests tests-long:
	@scripts/black-box $(if $(filter tests,$@),change,long) 2>&1 | tee target/$@.log

# The page in Chromium, as this program writes it.
test-page:
	@PROFILE=dev tests/exports/check-page 2>&1 | tee target/test-page.log

# All tests of call traces, with every stock kernel, with Xen, memtest86+ and UEFI firmware. KILLS is the number of
# kills of QEMU at random moments. The version of QEMU is printed: `make chroot-test-calls` has QEMU 10.
test-calls: KILLS ?= 50
test-calls:
	@scripts/setup build
	@$(MAKE) --no-print-directory build
	@qemu-system-x86_64 --version | head -n 1
	@BOOTSCOPE_TEST_KILLS=$(KILLS) BOOTSCOPE_TEST_GUESTS=$$(scripts/fetch-guests) scripts/black-box \
	    calls:: other_guests:: 2>&1 | tee target/test-calls.log

# Every kernel in scripts/fetch-kernel, plain, traced and with calls, with one CPU and with two: takes an hour.
test-kernels: CPUS ?= 1 2
test-kernels:
	@scripts/setup build
	@$(MAKE) --no-print-directory build
	@export BOOTSCOPE_TEST_MATRIX_CPUS="$(CPUS)" BOOTSCOPE_TEST_MATRIX=; \
	for kernel in $$(scripts/fetch-kernel --all); do \
	    BOOTSCOPE_TEST_MATRIX+=:$$(scripts/fetch-kernel $$kernel); \
	done; \
	scripts/black-box boots::kernels:: 2>&1 | tee target/test-kernels.log

# The recorder, compiled by every compiler, with every allowed order of memory operations, and under sanitizers if the
# compiler has them. Exit status 2 is a skip, and the log has it. The same holds for the reference kernel's library. The
# crates for kernels are compiled for other architectures. If this Rust has no core for them, Debian's is fetched once
# (200 MB). Their tests run as aarch64 code under qemu-aarch64. A C kernel of aarch64 boots, and bootscope reads its
# log.
test-tslog:
	@{ kernel/tslog/check-c; \
	RUSTFLAGS="--cfg loom" $(CARGO) test --locked -p tslog --release --target-dir target/loom --test loom; \
	kernel/tslog/check-sanitizers || [ $$? = 2 ]; \
	kernel/check-targets || { [ $$? = 2 ] && rustc=$$(scripts/fetch-targets) && RUSTC=$$rustc kernel/check-targets; } || [ $$? = 2 ]; \
	kernel/check-aarch64 || [ $$? = 2 ]; \
	kernel/tslog/check-boot-aarch64 || [ $$? = 2 ]; \
	kernel/lab/check-sanitizers || [ $$? = 2 ]; } 2>&1 | tee target/test-tslog.log

test-exports:
	@for check in tests/exports/check-*; do $$check || { echo "$$check failed"; exit 1; }; done 2>&1 | tee target/test-exports.log

# Every fuzz target for FUZZ_SECONDS. It uses no sanitizer: the readers are safe Rust, so possible faults are panics,
# unbounded memory and unbounded time, and Debian's Rust has no sanitizer runtimes.
fuzz:
	@export PATH=$(TOOLS)/bin:$$PATH; \
	$(CARGO) fuzz build --sanitizer none; \
	for target in $$($(CARGO) fuzz list); do \
	    seeds=crates/evidence/tests/data; [ ! -d fuzz/seeds/$$target ] || seeds=fuzz/seeds/$$target; \
	    mkdir -p fuzz/corpus/$$target; \
	    $(CARGO) fuzz run --sanitizer none $$target fuzz/corpus/$$target $$seeds -- \
	        -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -max_len=65536 >target/fuzz-$$target.log 2>&1 || \
	        { tail -n 30 target/fuzz-$$target.log; echo "fuzz: $$target: a finding, see above and target/fuzz-$$target.log"; exit 1; }; \
	    echo "fuzz: $$target: $$(tail -n 1 target/fuzz-$$target.log)"; \
	done

# bootscope-lake, which queries lakes: DataFusion, and a client for Ballista clusters. Takes up to an hour on two CPUs,
# and 2 GB. It needs Rust 1.94.
lake:
	$(CARGO) build --locked --release --workspace --manifest-path lake-engine/Cargo.toml --target-dir target/lake-engine
	install -D -s target/lake-engine/release/bootscope-lake $(LIB)/bootscope-lake

# Its tests, and one lake queried by all engines: DuckDB, Spark, and a Ballista cluster and an object store that are
# started here. Run it by hand, before a release.
test-lake:
	@scripts/setup lake
	@$(MAKE) --no-print-directory lake
	scripts/check-licences lake-engine/Cargo.toml
	$(CARGO) build --locked --release -p synthetic-fleet
	install -D target/release/synthetic-fleet target/lake-engine/release/synthetic-fleet
	$(CARGO) test --locked --release --workspace --manifest-path lake-engine/Cargo.toml --target-dir target/lake-engine
	$(CARGO) test --locked --release -p synthetic-fleet --test questions -- --ignored
	target/tools/python/bin/python lake-engine/tests/engines.py target/lake-engine/release
	target/tools/python/bin/python lake-engine/tests/senders.py target/lake-engine/release

# Tries the findings of all guests in scripts/make-findings, and writes docs/findings.md. Run it by hand: it takes an
# hour.
findings: build
	scripts/make-findings

# The book, in target/book: runs every command in it, and puts the output into its page. `scripts/make-book` has the
# options.
book:
	@scripts/setup build
	@scripts/setup book
	@$(MAKE) --no-print-directory build
	@export BOOTSCOPE_TEST_KERNEL=$$(scripts/fetch-kernel 6.1-cloud); scripts/fetch-kernel 6.1-armmp >/dev/null; \
	scripts/fetch-kernel 6.1-cloud-arm64 >/dev/null; scripts/make-book

# A broken promise ends it with an error, after all figures are measured.
bench: build
	@kept=yes; \
	$(CARGO) bench --locked -p bootscope --bench figures || kept=; \
	$(CARGO) bench --locked -p tslog || kept=; \
	$(CARGO) bench --locked -p p2buddy || kept=; \
	$(CARGO) bench --locked -p vmem || kept=; \
	[ -n "$$kept" ]

# Run it by hand, half an hour: a table of the most memory that each reader and view takes for hostile input of 1, 8 and
# 64 MB.
memory:
	$(CARGO) bench --locked -p bootscope --bench memory

fmt:
	$(CARGO) fmt
	[ ! -d page/node_modules ] || npm --prefix page run --silent format

# It needs write access to PREFIX. Run it after `make build`: sudo make install PREFIX=/usr/local
install:
	@[ -x $(PROGRAM) ] || { echo "install: nothing built yet; run: make build"; exit 1; }
	install -D -s $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/bootscope
	@if readelf --sections --wide $(PROGRAM) | grep -q '\.debug_line'; then scripts/line-tables-beside $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/bootscope; fi
	@$(MAKE) --no-print-directory install-library
	$(PROGRAM) man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions $(ZSH) fish/vendor_completions.d)
	$(PROGRAM) completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/bootscope
	$(PROGRAM) completions zsh >$(DESTDIR)$(PREFIX)/share/$(ZSH)/_bootscope
	$(PROGRAM) completions fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/bootscope.fish

install-library:
	install -d $(DESTDIR)$(PREFIX)/lib/bootscope
	install $(LIB)/guest-init $(wildcard $(LIB)/guest-init-*) $(LIB)/lab $(DESTDIR)$(PREFIX)/lib/bootscope
	install target/$(GUEST_TARGET)/capture/bootscope-capture $(DESTDIR)$(PREFIX)/lib/bootscope/bootscope-capture
	install -m 644 $(LIB)/$(PLUGIN) $(DESTDIR)$(PREFIX)/lib/bootscope/$(PLUGIN)

# The helpers that `cargo install --path crates/cli` does not install: make install-helpers PREFIX=$HOME/.cargo
install-helpers:
	$(CARGO) build --locked --release -p qemu-plugin
	@$(MAKE) --no-print-directory helpers install-library

# The packages of the last commit, in target/dist (docs/install.md): the same bytes in any folder, with the same tools.
deb tarball image:
	scripts/package $@

# `make demo` and `make test` on bare machines, as root: make chroot-test SUITE=trixie
chroot-test:
	@for suite in $(SUITE); do scripts/chroot-test $$suite; done

# The tests of call traces with Debian 13's QEMU 10, as root.
chroot-test-calls:
	scripts/chroot-test --only test-calls trixie

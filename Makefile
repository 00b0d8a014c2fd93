# A new user needs only `make demo` and `make test`. Everything is built once, into target/release.

.PHONY: all demo test bench soak fuzz truth truth-sim truth-real truth-robust truth-cost truth-kernel truth-wild pipeline-table pipeline-scrambled affinity mutants prebuilt install install-headers uninstall clean

prefix ?= /usr/local
CARGO ?= cargo
STRIP ?= strip

all:
	scripts/web
	$(CARGO) build --release

demo:
	scripts/setup demo
	scripts/web
	cargo build --release -p longpole
	target/release/longpole demo $(DEMO)

test:
	scripts/test

bench:
	scripts/setup bench
	cargo build --release
	bench/run

# Measurements and known answers of the example; they need a quiet host.
pipeline-table:
	examples/packet_pipeline/table.py $(TABLE)

SEED ?= 1
pipeline-scrambled:
	cargo build --release -p longpole
	examples/packet_pipeline/verdicts.py --seed $(SEED)

# Measures how soon a receiver runs after its packet: pinned or not, on an idle host or under
# stress.
affinity:
	scripts/setup affinity
	cargo build --release -p longpole
	examples/affinity/affinity.py $(AFFINITY)

# Injected bottlenecks, and controls without one: simulated, then in real recordings with the
# original names.
truth:
	scripts/setup test
	cargo build --release -p longpole
	examples/packet_pipeline/verdicts.py
	examples/pipes/verdicts.py
	tests/unmodified/check.py --seconds 4
	$(MAKE) truth-sim
	$(MAKE) truth-real

# SEED determines names, parameters and times; in the real part only if it is given. TRUTH contains
# options of bench/truth/run.py.
truth-sim:
	cargo build --release -p longpole -p longpole-sim
	bench/truth/run.py --seed $(SEED) $(TRUTH)

# Bottlenecks that are injected into running systems. Needs root and a quiet host. REAL contains
# options of bench/truth/real.py.
truth-real:
	scripts/setup test
	cargo build --release -p longpole
	bench/truth/real.py $(if $(filter file,$(origin SEED)),,--seed $(SEED)) $(REAL)

# Bottlenecks in real software. Needs root and a quiet host. WILD contains options of
# bench/truth/wild/run.py.
truth-wild:
	scripts/setup wild
	cargo build --release -p longpole
	bench/truth/wild/run.py $(WILD)

# The answers of the simulated part if events are missing and clocks differ (truth-robust), and the
# cost of computing the critical path (truth-cost).
truth-robust:
	cargo build --release -p longpole -p longpole-sim
	bench/truth/robust.py --seed $(SEED) $(TRUTH)

truth-cost:
	cargo build --release -p longpole -p longpole-sim
	bench/truth/cost.py $(TRUTH)

# Compares answers from kernel events with /proc, perf and bpftrace, each on ten seconds of a mixed
# load. Needs root.
truth-kernel:
	scripts/setup test
	cargo build --release -p longpole
	cargo build --release -p longpole-model --example wakers
	tests/peers/kernel.py --seconds 10
	tests/peers/journeys.py --seconds 10

# The long forms of tests, with the numbers that the acceptance criteria require.
soak:
	LONGPOLE_SOAK=1 cargo test --release -p longpole --test suite -- --nocapture --test-threads 1 recording:: kernel_many::
	LONGPOLE_SOAK=1 cargo test --release -p longpole --test suite -- --nocapture --test-threads 1 reliable
	cargo build --release -p longpole-record --examples
	LONGPOLE_SOAK=1 cargo test --release -p longpole --test suite -- --nocapture --test-threads 1 surroundings
	LONGPOLE_SOAK=1 cargo test --release -p longpole-record --test suite -- --nocapture --test-threads 1 reliable_
	ORACLE_SYSTEMS=2000 bash tests/oracle.sh

# Fuzzes everything that parses foreign input. Stable Rust accepts the options with which LLVM
# counts edges. The instrumented program is built in a folder of its own. Example:
# make fuzz SECONDS=600 TARGETS="ctf perf" SEED=7
SECONDS ?= 60
TARGETS ?=
FUZZ_TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
fuzz:
	RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Coverflow-checks=on -Cdebug-assertions=on" \
		CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo build --release -p longpole-fuzz --target $(FUZZ_TARGET) --target-dir target/fuzz
	target/fuzz/$(FUZZ_TARGET)/release/longpole-fuzz fuzz --seconds $(SECONDS) --seed $(SEED) $(TARGETS)

# Changes the code at random places and runs the tests, which should fail. MUTANTS is the number of
# changes, PACKAGES the crates to change; SEED repeats a sample. Example:
# make mutants MUTANTS=20 PACKAGES="longpole-ctf" SEED=7
MUTANTS ?= 50
PACKAGES ?= longpole-model longpole-analysis
mutants:
	scripts/mutants $(MUTANTS) $(if $(filter file,$(origin SEED)),random,$(SEED)) $(PACKAGES)

# For a user without cargo: `make`, and then `sudo make install`.
prebuilt:
	@[ -x target/release/longpole ] || { echo "install: there is no $(CARGO), and target/release/longpole was not built before; run make as a user who has cargo, then make install" >&2; exit 1; }

# The installed program has no debug information and no symbols, which are five sixths of its size.
install: $(if $(shell command -v $(CARGO)),all,prebuilt) install-headers
	install -D -m 755 target/release/longpole $(DESTDIR)$(prefix)/bin/longpole
	@if command -v $(STRIP) >/dev/null; then $(STRIP) $(DESTDIR)$(prefix)/bin/longpole; \
		else echo "install: there is no $(STRIP), so $(DESTDIR)$(prefix)/bin/longpole keeps its debug information; install binutils and repeat to make it smaller" >&2; fi
	install -d $(addprefix $(DESTDIR)$(prefix)/share/,man/man1 bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	target/release/longpole man --into $(DESTDIR)$(prefix)/share/man/man1
	target/release/longpole completions bash > $(DESTDIR)$(prefix)/share/bash-completion/completions/longpole
	target/release/longpole completions zsh > $(DESTDIR)$(prefix)/share/zsh/site-functions/_longpole
	target/release/longpole completions fish > $(DESTDIR)$(prefix)/share/fish/vendor_completions.d/longpole.fish
	install -d $(DESTDIR)$(prefix)/lib/systemd/system
	sed 's|@bindir@|$(prefix)/bin|' share/systemd/longpole.service > $(DESTDIR)$(prefix)/lib/systemd/system/longpole.service

# Installs only the probes, which need no build. pkg-config and CMake find them.
install-headers:
	install -d $(DESTDIR)$(prefix)/include/longpole $(DESTDIR)$(prefix)/share/pkgconfig $(DESTDIR)$(prefix)/share/cmake/longpole
	install -m 644 include/longpole/*.h $(DESTDIR)$(prefix)/include/longpole
	install -m 644 share/pkgconfig/longpole.pc $(DESTDIR)$(prefix)/share/pkgconfig
	install -m 644 share/cmake/longpole/* $(DESTDIR)$(prefix)/share/cmake/longpole

# Removes what install and install-headers have installed, and nothing else.
uninstall:
	rm -f $(addprefix $(DESTDIR)$(prefix)/,bin/longpole share/man/man1/longpole.1 share/man/man1/longpole-*.1 \
		share/bash-completion/completions/longpole share/zsh/site-functions/_longpole \
		share/fish/vendor_completions.d/longpole.fish lib/systemd/system/longpole.service \
		share/pkgconfig/longpole.pc $(wildcard include/longpole/*.h) $(wildcard share/cmake/longpole/*))
	for folder in include/longpole share/cmake/longpole; do \
		[ ! -d $(DESTDIR)$(prefix)/$$folder ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$(prefix)/$$folder; \
	done

clean:
	cargo clean

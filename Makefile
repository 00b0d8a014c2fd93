# `make demo` and `make test` are all that a newcomer needs. Everything is built into target/release, once.

.PHONY: all demo test bench soak pipeline-table pipeline-scrambled install clean

prefix ?= /usr/local

all:
	cargo build --release

demo:
	scripts/setup demo
	cargo build --release -p longpole
	target/release/longpole demo $(DEMO)

test:
	scripts/test

bench:
	scripts/setup bench
	cargo build --release
	bench/run

install: all
	install -D -m 755 target/release/longpole $(DESTDIR)$(prefix)/bin/longpole
	install -d $(DESTDIR)$(prefix)/include/longpole
	install -m 644 include/longpole/*.h $(DESTDIR)$(prefix)/include/longpole

clean:
	cargo clean

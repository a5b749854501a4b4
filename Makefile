# Thin: every target calls a script or CMake, and prints what it runs. `make demo` and `make test` need nothing installed beforehand.
.PHONY: demo test test-more test-full check one bench api fmt install setup clean device-bundle

PREFIX ?= /usr/local
DEVICE ?= cpu
JOBS   ?= $(shell nproc)

demo: setup
	tools/build.sh release train
	build/release/examples/train $(DEVICE) --out build/demo

test: setup
	tools/test.sh

# Sanitizers, fuzzers, the model of the protocol, programs beside MLX.
test-more: setup
	tools/test.sh more

test-full: setup
	tools/test.sh full

# The inner loop: debug with ASan and UBSan, the tests without the label slow, layers, format; warnings are errors everywhere.
check:
	JOBS=$(JOBS) tools/test.sh check

# make one T=runtime/stream
one:
	tools/build.sh asan
	ctest --test-dir build/asan --output-on-failure --verbose -R '^$(T)$$'

# make bench [OP=load]
bench:
	tools/build.sh release benchmarks
	tools/bench.sh $(OP)

api:
	tools/build.sh release
	tools/check/api_coverage.sh build/release/libkeel.so

# bundle/: tests, benchmarks and examples for another machine with a GPU.
device-bundle:
	tools/device-bundle.sh

fmt:
	tools/check/format.sh fix

install:
	cmake -S . -B build/install -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	cmake --build build/install
	cmake --install build/install

setup:
	tools/setup.sh

clean:
	rm -rf build

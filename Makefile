# Two commands set everything up: `make run` and `make test`. Both may be repeated; what is done is not redone.

PROMPT ?= Why is the sky blue?
ARGS ?=
MODEL ?=
JOBS ?= $(shell nproc)

MODELS_DIR := $(or $(CERA_MODELS),$(HOME)/.cache/cera-models)
PEERS_DIR := $(or $(CERA_PEERS),$(HOME)/.cache/cera-peers)
DEFAULT_MODEL := $(MODELS_DIR)/smollm2.gguf
USED_MODEL := $(or $(MODEL),$(DEFAULT_MODEL))

CONFIGURE := cmake --log-level=WARNING $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) \
  $(if $(CI),-DCMAKE_COMPILE_WARNING_AS_ERROR=ON)
SOURCES := CMakeLists.txt CMakePresets.json $(shell find src include cmake -type f -o -type d 2>/dev/null)
# ninja's progress on a terminal, its warnings and errors only elsewhere.
NINJA_QUIET := $(shell test -t 1 || echo --quiet)
PYTHON := .venv/bin/python

export PROMPT USED_MODEL

.PHONY: run test ask build fidelity bench format tidy clean help

help:
	@echo 'make run [PROMPT="..."] [MODEL=file.gguf] [ARGS="--max-tokens 200"]   set up, build, answer'
	@echo 'make test        set up, build, run every test (up to 10 minutes on 2 cores)'
	@echo 'make fidelity    compare with llama.cpp on real files (builds llama.cpp: 8 minutes, once)'
	@echo 'make bench       speed, side by side with llama.cpp'
	@echo 'make tidy, make format, make clean'

run: build/release/cera $(if $(MODEL),,$(DEFAULT_MODEL))
	@build/release/cera run -m "$$USED_MODEL" -p "$$PROMPT" $(ARGS)

build: build/release/cera

build/release/cera: build/packages.stamp $(SOURCES)
	@echo "==> build: cera, optimised (the first time takes some minutes)"
	@$(CONFIGURE) --preset release
	@ninja -C build/release $(NINJA_QUIET) -j $(JOBS) cera
	@touch $@

build/packages.stamp: packages.txt tools/setup
	@tools/setup packages.txt
	@mkdir -p build && touch $@

$(MODELS_DIR)/%.gguf: | build/packages.stamp
	@tools/get_model --dir "$(@D)" $* >/dev/null

test: build/packages.stamp .venv/requirements.stamp $(PEERS_DIR)/source.stamp $(DEFAULT_MODEL)
	@echo "==> build: cera and its tests (the first time takes some minutes)"
	@$(CONFIGURE) --preset dev -DCERA_PYTHON="$(CURDIR)/$(PYTHON)"
	@ninja -C build/dev $(NINJA_QUIET) -j $(JOBS)
	@echo "==> test"
	@CERA_REQUIRE_MODEL=1 ctest --test-dir build/dev -j $(JOBS) --output-on-failure --timeout 300

.venv/requirements.stamp: tests/requirements.txt | build/packages.stamp
	@echo "==> python: packages for the tests, in .venv"
	@test -x $(PYTHON) || python3 -m venv .venv
	@$(PYTHON) -m pip install -q --disable-pip-version-check -r tests/requirements.txt
	@touch $@

$(PEERS_DIR)/source.stamp: tools/get_llama_cpp | build/packages.stamp
	@tools/get_llama_cpp >/dev/null
	@touch $@

fidelity: build/release/cera .venv/requirements.stamp $(DEFAULT_MODEL)
	@tools/get_llama_cpp --build >/dev/null
	@$(PYTHON) tools/fidelity smollm2

bench: build/release/cera $(DEFAULT_MODEL)
	@tools/get_llama_cpp --build >/dev/null
	@python3 bench/compare "$$USED_MODEL"

tidy:
	@tools/tidy

format:
	@find src tests bench -name '*.cpp' -o -name '*.h' | xargs clang-format-19 -i

clean:
	rm -rf build

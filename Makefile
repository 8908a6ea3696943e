# make demo and make test need Python 3.11 or later and make, nothing else.
PYTHON ?= python3
BIN := .venv/bin
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
endif
PIP := $(BIN)/python -m pip --disable-pip-version-check install -q --no-warn-script-location

.PHONY: demo test test-all lint unit install docs reproduce bench clean
demo: .venv/installed
	$(BIN)/tango demo
	@echo 'tango is in $(BIN): activate it with `source $(BIN)/activate`'

test: lint unit

# All of make test, and what takes too long for it: minutes more.
test-all: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: .venv/installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'

# All tables and figures of the documentation from the stored results; RUN="paper-tucker/ICEWS14s --out again" makes runs first.
reproduce: .venv/installed
	$(if $(RUN),$(BIN)/python -m experiments run $(RUN))
	$(BIN)/python -m experiments tables

BENCH ?= step
bench: .venv/installed
	$(BIN)/python -m experiments bench $(BENCH)

# The site, with its notebooks executed: about a minute. It asks no network, neither here nor in a browser.
docs: .venv/installed-docs
	$(BIN)/python -m sphinx -q -W --keep-going -c docs -d build/doctrees . build/site
	@echo 'The site is in build/site: open build/site/index.html'

install: .venv/installed
	@echo 'tangokg is installed in .venv. Next:'
	@echo '  source $(BIN)/activate'
	@echo '  tango doctor                              what this machine has'
	@echo '  python examples/trips.py trips.csv        a small table to try, or take your own'
	@echo '  tango data inspect trips.csv              what is in it'
	@echo '  tango train trips.csv --out runs/trips    a model, which then says how to ask it'

# Installed once; again only when pyproject.toml changes.
.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("tangokg needs Python 3.11 or later; set PYTHON=python3.12, say" if sys.version_info < (3, 11) else 0)'
	test -d .venv || $(PYTHON) -m venv .venv
	$(PIP) -e .
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) -e ".[dev]"
	@touch $@

.venv/installed-docs: .venv/installed
	$(PIP) -e ".[docs]"
	@touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

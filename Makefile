# make demo and make test need Python 3.11 or later and make, nothing else.
PYTHON ?= python3
BIN := .venv/bin
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
endif
PIP := $(BIN)/python -m pip --disable-pip-version-check install -q --no-warn-script-location

.PHONY: demo test test-all newest lint unit install docs reproduce bench tgb dist clean
demo: .venv/installed
	$(BIN)/tango demo
	@echo 'tango is in $(BIN): activate it with `source $(BIN)/activate`'

test: lint unit

# All of make test, and what takes too long for it: minutes more.
test-all: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The newest of all dependencies, torch beyond our bound too, to see what will break next.
newest: .venv/installed-dev
	$(PIP) --upgrade --upgrade-strategy eager -e ".[dev]"
	$(PIP) --upgrade torch
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'

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

# Models on TGB 2.0, five seeds each: docs/tgb.md. DATA is the folder that holds tkgl_smallpedia and the others.
DATA ?=
SETS ?=
MODELS ?= tango recurrency
SEEDS ?= 0 1 2 3 4
DEVICE ?= auto
OUT ?= runs/tgb
tgb: .venv/installed
	$(if $(DATA),,$(error name the folder of the data: make tgb DATA=path/to/datasets))
	$(BIN)/python -m experiments tgb $(DATA) $(if $(SETS),--sets $(SETS)) --models $(MODELS) --seeds $(SEEDS) \
		--device $(DEVICE) --out $(OUT)

# Wheel and source distribution in dist/, checked as a package index would.
dist: .venv/installed-dev
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m twine check --strict dist/*

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
	$(PIP) -e ".[serve]"
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) -e ".[dev]"
	@touch $@

.venv/installed-docs: .venv/installed
	$(PIP) -e ".[docs]"
	@touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

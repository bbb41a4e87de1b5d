# make study     set up .venv and run the main study
# make studies   the published studies of docs/studies, point by point, and their pictures
# make test      set up .venv and run the tests (EXAMPLES=10: more random ones; TESTS=tests/engine: these)
# make test-long the tests that take longer, which are not among those of make test
# make check     formatting, lint and types
# make bench     benchmarks, as ratios
# make faults    10,000 changed inputs, all that would break a promise, 100 sweeps killed (an hour)
# make docs      the documentation as a site, in site/

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STUDY  ?= libra_gpt3_4d
TESTS  ?= tests

.DEFAULT_GOAL := help
.PHONY: help setup study studies test test-long check bench faults docs lock clean

help:
	@sed -n 's/^# make/make/p' Makefile

# Whether this Python is one of pyproject.toml's; 3.10 must be able to run it, to be told so.
define KNOWN
import re, sys
text = open("pyproject.toml").read()
least, beyond = map(int, re.search('requires-python = ">=3.([0-9]+),<3.([0-9]+)"', text).groups())
if not (3, least) <= sys.version_info < (3, beyond):
    print(f"dimsweep needs Python 3.{least} to 3.{beyond - 1}: Numba and Ray have wheels for these; "
          f"this is {sys.version.split()[0]}")
    sys.exit(1)
endef
export KNOWN

setup: $(VENV)/.ready

# Reinstalls only when the project's requirements change.
$(VENV)/.ready: pyproject.toml requirements.lock
	@echo "setting up $(VENV) (once; about a minute)"
	@$(PYTHON) -c "$$KNOWN" || { echo "try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@touch $@

study: setup
	@echo "running the study $(STUDY): every trial is a full simulation (first run also compiles)"
	@$(BIN)/dimsweep sweep study=$(STUDY)

studies: setup
	@$(BIN)/dimsweep verify studies --pictures docs/studies

# Bytecode is kept, whatever the shell says: many tests start dimsweep anew.
# The tests of a file share what they compose and import, so one process has them all; long ones are
# handed out one by one, or by what they must not do at a time.
test: WHICH := not long
test: BY := loadfile
test-long: WHICH := long
test-long: BY := loadgroup
test test-long: setup
	@echo "running the tests that are $(WHICH)"
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist $(BY) -m "$(WHICH)" $(TESTS)

check: setup
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy

bench: $(VENV)/.bench
	@$(BIN)/python -m benchmarks

$(VENV)/.bench: $(VENV)/.ready
	@echo "installing what dimsweep is compared with (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[bench]'
	@touch $@

faults: setup
	@$(BIN)/python -m tests.faults

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet && echo "the site is site/index.html"

$(VENV)/.docs: $(VENV)/.ready
	@echo "installing what builds the site (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[docs]'
	@touch $@

# Pins what is installed now, by name and version only.
lock: setup
	@$(BIN)/python -m pip freeze --exclude-editable | sort -f > requirements.lock

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache

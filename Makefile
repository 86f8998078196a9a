# The commands of this repository. `make run` and `make test` need Python 3.11 and this folder, nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check bench bench-detection pages fuzz soak chaos mutants format lock clean system-packages

# Any Python from 3.11 on; `make run PYTHON=python3.13` chooses another one.
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))
VENV := .venv
BIN := $(VENV)/bin
LOCK := .ci/requirements.lock
DEV_LOCK := .ci/requirements-dev.lock
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --no-emit-index-url --no-emit-find-links

# What is locked, and so in the image, beside what is always needed; imported only where it is configured.
EXTRAS := --extra dns --extra kubernetes

TARGETS ?=
ARGS ?=

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

run: $(VENV)/.run ## specmon on TARGETS="http://host:8000/metrics …"; without: the demo. ARGS="…" adds flags
ifeq ($(strip $(TARGETS)),)
	@exec $(BIN)/python -m monitor demo $(ARGS)
else
	@exec $(BIN)/python -m monitor run $(foreach target,$(TARGETS),--target '$(target)') $(ARGS)
endif

# A worker per core takes tests from one that has many left. `-n 0` in ARGS runs all in one process, where --pdb works.
test: $(VENV)/.dev system-packages ## every test; sets up all that they need. ARGS="-k word" narrows
	$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=8 --dist=worksteal $(ARGS)

check: $(VENV)/.dev ## everything that a change must pass before its tests run
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m alerts.generate --check
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_repository.py tests/test_docs.py

bench: $(VENV)/.dev ## the benchmarks, each with the thing it is compared to
	@missed=; for file in tests/bench/bench_*.py; do \
		name=$$(basename "$$file" .py); echo "== $$name"; $(BIN)/python -m "tests.bench.$$name" || missed+=" $$name"; \
	done; [ -z "$$missed" ] || { echo "goals missed in:$$missed" >&2; exit 1; }

bench-detection: $(VENV)/.dev ## how soon and how sure changes are found, on simulated traffic; ARGS=--write quotes it
	$(BIN)/python -m tests.acceptbench.figures $(ARGS)

pages: $(VENV)/.dev ## every page in Chromium at every width, light and dark, of 4 to 4,000 streams. AXE_CORE=FILE takes another axe
	LOOKS=all $(BIN)/python -m pytest tests/web/test_browser.py $(ARGS)

fuzz: $(VENV)/.dev ## hostile input for every reader of foreign data, ten minutes each. ARGS="API --seconds 60" narrows
	$(BIN)/python -m tests.fuzz $(ARGS)

soak: $(VENV)/.dev ## what 100,000 changes of targets and labels leave behind: memory, files, store
	$(BIN)/python -m tests.soak $(ARGS)

chaos: $(VENV)/.dev ## whether the same is found while everything goes wrong, minutes. ARGS="--seed 2 --engines 50" varies
	$(BIN)/python -m tests.chaos $(ARGS)

mutants: $(VENV)/.dev ## which flipped operators of the core the tests do not notice. ARGS="level trend" narrows; long
	$(BIN)/python -m tests.mutants $(ARGS)

format: $(VENV)/.dev ## the layout that `make check` wants, and README's generated tables
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .
	$(BIN)/python -m tests.readme --write
	$(BIN)/python -m alerts.generate

lock: $(VENV)/.run ## pins the newest versions that pyproject.toml allows
	$(PIP) install uv
	$(COMPILE) --upgrade pyproject.toml $(EXTRAS) --output-file $(LOCK)
	$(COMPILE) --upgrade pyproject.toml $(EXTRAS) --extra dev --constraint $(LOCK) --output-file $(DEV_LOCK)

clean: ## removes what the other commands made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "specmon needs Python 3.11 or newer; none of python3, python3.11 … is" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(LOCK) | $(BIN)/python
	$(PIP) install --require-hashes --requirement $(LOCK)
	@touch $@

$(VENV)/.dev: $(DEV_LOCK) pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes --requirement $(DEV_LOCK)
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.run

system-packages:
	@.ci/system-packages

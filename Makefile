# Every command of the house. Each target does its own set-up, asks nothing and may be rerun.
#   make demo PRESET=smoke         the loop at its smallest
#   make test ARGS="tests/test_files.py -k disk"
#   make setup PYTHON=python3.12   another interpreter (3.11 or newer)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
PRESET ?= full
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
# Single files beside the packages that mypy also reads.
SCRIPTS = $(wildcard *.py scripts/*.py)

# pip tells of everything or of nothing; this shows the big files and the unpacking.
PIP = PIP_DISABLE_PIP_VERSION_CHECK=1 $(PY) -m pip --no-input install --progress-bar off
PROGRESS = sed -unE \
	-e 's/^ *(Downloading|Using cached) (.*\/)?([^ \/]+) \(([0-9]{2,}(\.[0-9]+)? MB)\).*/    \3 (\4)/p' \
	-e 's/^Installing collected packages.*/    unpacking/p'

# Stamps are written last, so a failed install leaves none behind.
CORE := $(VENV)/.stamp-core
PACKAGE := $(VENV)/.stamp-package
DEV := $(VENV)/.stamp-dev
WHISPERX := .venv-whisperx/.stamp

.PHONY: help setup dev test test-slow weights whisperx demo ablation seeds lint format typecheck imports check clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(PACKAGE) ## make .venv with the pinned CPU packages (about 2 GB, once)
	@:

dev: $(DEV) ## add what tests and checks need
	@:

test: dev ## run the tests but the slow ones (ARGS=… goes to pytest); works without weights
	@OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(PY) -m pytest -m "not slow" $(ARGS)

test-slow: dev ## run the slow tests: real recognisers, a cluster of two workers, pretrained parts
	@OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(PY) -m pytest -m slow $(ARGS)

weights: setup ## fetch the packaged weights into weights/ (optional, offline ever after)
	@$(PY) scripts/fetch_weights.py

whisperx: $(WHISPERX) ## make .venv-whisperx for the WhisperX recogniser (optional, several GB)
	@:

demo: setup ## train, stream and score the small model (PRESET=full or smoke)
	@$(PY) scripts/fetch_weights.py --only all-mpnet-base-v2 || { \
		echo "==> without the paper's embedder: trying the smaller one, and saying so in the table"; \
		$(PY) scripts/fetch_weights.py --only all-MiniLM-L6-v2; }
	@$(PY) -m eval.demo --preset $(PRESET)
	@$(PY) scripts/check_result.py $(if $(filter full,$(PRESET)),runs/demo,runs/$(PRESET))

ablation: setup ## train with several weights on silent frames and print their table
	@$(PY) -m eval.demo --ablation

seeds: setup ## the demo under three training seeds, one table
	@$(PY) -m eval.demo --seeds 0 1 2

lint: dev ## ruff: rules and formatting
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .

format: dev ## let ruff mend and format the code
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

typecheck: dev ## mypy
	@$(VENV)/bin/mypy vlm_tsi eval data_prep $(SCRIPTS)

imports: dev ## import-linter: nothing imports against the flow
	@$(VENV)/bin/lint-imports

check: lint typecheck imports ## lint, typecheck and imports

clean: ## remove caches and build leftovers (keeps .venv, weights and runs)
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -path './.venv*' -prune -o -type d -name __pycache__ -exec rm -rf {} +

$(CORE): requirements-cpu.txt
	@command -v $(PYTHON) > /dev/null || \
		{ echo "error: no $(PYTHON) found; install Python 3.11 or newer, or name one: make PYTHON=…" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
		"error: $(PYTHON) is Python %d.%d; vlm-tsi needs 3.11 or newer: make PYTHON=python3.11" % v[:2])'
	@$(PY) -m pip --version > /dev/null 2>&1 || { echo "==> making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "==> installing the pinned packages (about 2 GB, a few minutes the first time)"
	@$(PIP) -r requirements-cpu.txt | $(PROGRESS)
	@touch $@

$(PACKAGE): pyproject.toml $(CORE)
	@$(PIP) -q -e . --no-deps --no-build-isolation
	@touch $@

$(DEV): requirements-dev.txt $(PACKAGE)
	@echo "==> installing what tests and checks need"
	@$(PIP) -r requirements-dev.txt | $(PROGRESS)
	@touch $@

$(WHISPERX): PY = .venv-whisperx/bin/python
$(WHISPERX): requirements-whisperx.txt
	@command -v $(PYTHON) > /dev/null || \
		{ echo "error: no $(PYTHON) found; install Python 3.11, or name one: make whisperx PYTHON=…" >&2; exit 2; }
	@$(PY) -m pip --version > /dev/null 2>&1 || { echo "==> making .venv-whisperx"; $(PYTHON) -m venv .venv-whisperx; }
	@echo "==> installing WhisperX beside the core environment (several GB, once)"
	@$(PIP) -r requirements-whisperx.txt | $(PROGRESS)
	@touch $@

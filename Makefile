# peerveil: `make demo` and `make test` are all that a fresh machine with Python 3.11+ and make needs.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= auto

.PHONY: help demo test test-slow bench audit docs fmt lock clean

help: ## what can be done
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

demo: .venv/use.stamp ## do the main job on synthetic data; writes out/demo/report.html
	$(BIN)/peerveil demo --out out/demo

test: .venv/dev.stamp ## formatting, lint, types, floors, tests, doctests, docs
	PYTHON_BIN=$(BIN) WORKERS=$(WORKERS) scripts/test.sh

test-slow: .venv/slow.stamp ## long statistical, kill and scale tests
	$(BIN)/pytest -n $(WORKERS) -m slow

bench: .venv/bench.stamp ## speed, as ratios against a peer in the same run (one module: .venv/bin/python -m benchmarks truth_speed)
	$(BIN)/python -m benchmarks

audit: .venv/use.stamp ## measured privacy loss against every claim, and deliberately broken mechanisms
	$(BIN)/peerveil audit run

docs: .venv/dev.stamp ## the documentation, in docs/_build/html
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

fmt: .venv/dev.stamp ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: .venv/dev.stamp ## write the lock files anew
	scripts/lock.sh

.venv/bench.stamp: requirements/bench-peers.lock
.venv/%.stamp: requirements/%.lock requirements/bootstrap.lock pyproject.toml scripts/setup.sh
	PYTHON=$(PYTHON) scripts/setup.sh $*
	@touch $@

clean: ## remove everything that was made here
	rm -rf .venv out dist build docs/_build docs/api docs/actions.md docs/http.md docs/words.md .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

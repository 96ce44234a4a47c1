# make run    set up and show the main job        make test       set up and run the fast tests
# make check  style, types, floors, licences      make test-slow  the long tests
SHELL := /bin/sh
.DEFAULT_GOAL := help
PY := .venv/bin/python
# `make test T=tests/store` runs a part; `make test ARGS="-k name"` passes options on.
T ?= tests
ARGS ?=
export PYTHONDONTWRITEBYTECODE ?=
export PYTHON ?=

.PHONY: help run test test-slow check format lock setup dev clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

run: setup ## set up what is needed and do the main job once on the example (no account, no model)
	@$(PY) examples/first-run/run.py $(ARGS)

setup:
	@scripts/setup.sh run

dev:
	@scripts/setup.sh dev

test: dev ## the fast tests: all as you, a part as an ordinary user, a part with the network cut
	@scripts/test.sh fast $(T) $(ARGS)

test-slow: dev ## the tests marked slow
	@scripts/test.sh slow $(T) $(ARGS)

check: dev ## ruff, basedpyright, import-linter, file sizes, licences
	@scripts/check.sh

format: dev ## let ruff rewrite what it can
	@$(PY) -m ruff check --fix-only --quiet . ; $(PY) -m ruff format .

lock: ## resolve the dependencies again and write requirements/ (UPGRADE=1 takes newer versions)
	@scripts/lock.sh

clean: ## remove what was built or cached here
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

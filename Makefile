# Everything a person or CI does here. `make run` and `make test` provision by themselves; all they need is
# Python 3.11 or newer with its venv module, and make.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

UV_VERSION := 0.13.9
STEPS ?= 200000
OUT ?= build/eval.json
# Two files of tests at once, each process with databases and a product of its own. AT_ONCE= runs one after another.
AT_ONCE ?= -n 2 --dist loadfile
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
MODEL_DIR := $(VENV)/share/grovekeeper/minilm-int8
PACKAGES := protos service_kit gateway authz_service memory_service runner_service provider_workers
ENCODER := provider_workers/adapters/native/embedding

# Whatever environment is active where make is called, the one meant is ours; and no interpreter is fetched.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH UV_PROJECT UV_SYSTEM_PYTHON
UV := UV_SYSTEM_CERTS=true UV_PROJECT_ENVIRONMENT=$(VENV) UV_PYTHON_DOWNLOADS=never $(BIN)/uv

# A checkout that was moved or copied leaves its environment's absolute paths behind: begin again there.
ifneq ($(wildcard $(VENV)/.place),)
ifneq ($(shell cat $(VENV)/.place),$(CURDIR))
$(shell rm -rf $(VENV))
endif
endif

.PHONY: help setup run gen fmt lint types test soak bench eval check clean
.PHONY: test-unit test-contract test-api test-e2e test-migrations test-architecture test-faults

help: ## what can be made
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1@\2/p' Makefile | column -t -s@ 2>/dev/null \
	  || sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1  \2/p' Makefile

setup: $(VENV)/.dev $(VENV)/.model ## provision everything for development
	@echo "ready: $(BIN)"

run: $(VENV)/.run $(VENV)/.model ## start the whole product in the foreground
	@$(BIN)/grove up

gen: $(VENV)/.dev ## write what is generated: the stubs of the protos, docs/settings.md, docs/conformance.md
	$(PY) protos/generate.py
	$(PY) -m service_kit.cli.settings_docs --out docs/settings.md
	$(PY) -m tests.requirements.page --out docs/conformance.md

fmt: $(VENV)/.dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only --quiet .

lint: $(VENV)/.dev ## formatting, lint, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache

types: $(VENV)/.dev ## strict types
	$(BIN)/basedpyright

test: $(VENV)/.dev $(VENV)/.model lint types ## everything: the rules, then every test; PYTEST_ARGS are handed on
	$(PY) -m pytest $(AT_ONCE) $(PYTEST_ARGS)

test-unit test-contract test-api test-e2e test-migrations test-architecture test-faults: test-%: $(VENV)/.dev $(VENV)/.model
	$(PY) -m pytest tests/$* $(AT_ONCE) $(PYTEST_ARGS)

check: test ## all that a change has to pass

soak: $(VENV)/.dev $(VENV)/.model ## STEPS random steps of access and of records against their models, never the same; every route's timing and fuzz
	GROVE_SOAK_STEPS=$(STEPS) GROVE_FUZZ_EXAMPLES=300 $(PY) -m pytest tests/contract/access tests/contract/records tests/e2e/test_timing.py \
	  tests/e2e/test_fuzz.py $(PYTEST_ARGS)

bench: $(VENV)/.run $(VENV)/.model ## measure, beside the floor of each figure; writes build/bench.json
	$(PY) -m tests.bench --out build/bench.json

eval: $(VENV)/.dev $(VENV)/.model ## evaluate recall on DATA=/path/to/locomo10.json; OUT=build/eval.json, EVAL_ARGS are handed on
	$(PY) -m tests.eval --data "$(DATA)" --out "$(OUT)" $(EVAL_ARGS)

clean: ## remove what was provisioned and built here; no data
	rm -rf $(VENV) build dist htmlcov .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage*

# --- provisioning -------------------------------------------------------------------------------------------

# The first Python that is new enough and can make environments. PYTHON=… names another.
$(VENV)/.uv-$(UV_VERSION):
	@set -e; \
	for one in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  "$$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  "$$one" -c 'import venv, ensurepip' 2>/dev/null || { lacks="$$lacks $$one"; continue; }; \
	  found="$$one"; break; \
	done; \
	if [ -z "$$found" ]; then \
	  if [ -n "$$lacks" ]; then \
	    echo "set-up:$$lacks cannot make virtual environments; install its venv package (Debian: python3-venv)" >&2; \
	  else \
	    echo "set-up: no Python 3.11 or newer was found; install one, or name it: make PYTHON=/path/to/python3" >&2; \
	  fi; \
	  exit 2; \
	fi; \
	echo "set-up: a virtual environment of $$("$$found" --version) in $(VENV)"; \
	rm -rf $(VENV); \
	"$$found" -m venv $(VENV)
	@printf '%s' "$(CURDIR)" > $(VENV)/.place
	@echo "set-up: uv $(UV_VERSION)"
	@$(PY) -m pip --isolated --disable-pip-version-check install --no-input 'uv==$(UV_VERSION)' \
	  || $(PY) -m pip --disable-pip-version-check install --no-input 'uv==$(UV_VERSION)'
	@touch $@

# What running takes. --inexact: a development environment stays one. Compiled now, because starting five
# services that each compile what they import takes a minute.
$(VENV)/.run: uv.lock pyproject.toml $(VENV)/.uv-$(UV_VERSION)
	@echo "set-up: packages of uv.lock"
	@$(UV) sync --frozen --inexact --compile-bytecode --no-default-groups --group model
	@$(PY) -m compileall -q $(PACKAGES)
	@touch $@

$(VENV)/.dev: uv.lock pyproject.toml $(VENV)/.uv-$(UV_VERSION)
	@echo "set-up: packages of uv.lock, for development too"
	@$(UV) sync --frozen --compile-bytecode
	@$(PY) -m compileall -q $(PACKAGES)
	@touch $@ $(VENV)/.run

# The embedded sentence encoder; a finished one is left alone. Any of the two environments can build it.
$(VENV)/.model: $(wildcard $(ENCODER)/*.py) | $(VENV)/.uv-$(UV_VERSION)
	@test -e $(VENV)/.run || $(MAKE) --no-print-directory $(VENV)/.run
	@echo "set-up: the embedded sentence encoder"
	@$(PY) -m $(subst /,.,$(ENCODER)).build_model --out $(MODEL_DIR)
	@touch $@

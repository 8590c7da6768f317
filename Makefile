# Two commands on a fresh machine: `make train` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
# `make test TESTS=tests/core`: some of them
TESTS  ?=
# tests start many processes: each keeps to one thread of BLAS
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: train test slow test-all campaign check lint types docs dist tables pictures bench clean help

help:
	@echo "make train   install and learn RoboschoolHalfCheetah-v2 for about two minutes"
	@echo "make test    the tests of every commit, about five minutes"
	@echo "make slow    tests of whole runs, learning and peers"
	@echo "make test-all both of them"
	@echo "make campaign kills, damage, odd environments, full disks: about an hour (SAMPLE=240: seconds)"
	@echo "make check   lint, types and docs"
	@echo "make tables  the tables of settings and the numbers of results in docs/, from files"
	@echo "make pictures the picture of PeNFAC and PPO, from files"
	@echo "make docs    the pages of docs/ as a site, in build/site"
	@echo "make dist    sdist and wheel in dist/, checked"
	@echo "make bench   speed and memory, ratios against peers"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing penfac into $(VENV) (960 MB, once)"
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) -e ".[dev,device,onnx]"
	@touch $@

$(VENV)/.peers: $(VENV)/.dev
	$(PIP) -e ".[dev,device,onnx,peers,pybullet,ray,optuna,wandb,mlflow]"
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) -e ".[dev,device,onnx,docs]"
	@touch $@

train: $(VENV)/.core
	$(BIN)/penfac train --env RoboschoolHalfCheetah-v2 --steps 1_000_000 --stop-after 150s

test: $(VENV)/.dev
	$(PYTEST) -m "not slow" $(TESTS)

slow: $(VENV)/.peers
	$(PYTEST) -m slow $(TESTS)

test-all: $(VENV)/.peers
	$(PYTEST) $(TESTS)

# the whole campaign writes results/campaign.json and the tables in docs/faults.md
campaign: $(VENV)/.peers
	PYTHONPATH=src $(BIN)/python -m tests.campaign \
	  $(if $(SAMPLE),--sample $(SAMPLE),--json results/campaign.json --docs)

check: lint types docs

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests examples docs/*.py hatch_build.py
	$(BIN)/ruff format --check src tests examples docs/*.py hatch_build.py
	$(BIN)/lint-imports

types: $(VENV)/.peers
	$(BIN)/pyright

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

# PENFAC_REPOSITORY=https://... makes the links of the README absolute
dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m docs.check_dist dist

tables: $(VENV)/.dev
	$(BIN)/python -m docs.tables

pictures: $(VENV)/.dev
	$(BIN)/python -m docs.pictures

bench: $(VENV)/.peers
	$(BIN)/penfac bench cpu

clean:
	rm -rf $(VENV) .venv-3.12 .pytest_cache .ruff_cache .hypothesis build dist

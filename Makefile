VENV ?= .venv
PIP_ARGS ?=
# What the tests use beside `dev`; with `tensorrt-rtx` they also build engines of TensorRT, which needs no GPU.
TEST_EXTRAS ?= postgres
BIN := $(VENV)/bin
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
PYTHON ?= $(shell for python in python3 python3.12 python3.11 python3.13; do \
	$$python -c '$(SUPPORTED)' 2>/dev/null && echo $$python && break; done)

.PHONY: help gpu demo test engines lint format docs site clean

help:
	@echo "make demo    install, start a server, enrol the bundled clip, write demo.wav"
	@echo "make gpu     the same for a machine with a GPU: faiss-gpu in place of faiss-cpu"
	@echo "make test    install what the tests need and run them"
	@echo "make engines  build every network of the voices with TensorRT-RTX, where it is installed"
	@echo "make lint    style, types and import rules"
	@echo "make format  rewrite the sources in the house's style"
	@echo "make docs    write the pages that are made from the sources"
	@echo "make site    build the pages of docs/ as a site, in build/site"
	@echo "make clean   remove the state and the demo's output (not the environment)"

demo: $(VENV)/.installed
	$(BIN)/python -m api.demo

gpu: $(VENV)/.installed
	$(BIN)/python -m pip uninstall -y faiss-cpu
	$(BIN)/python -m pip install $(PIP_ARGS) 'faiss-gpu>=1.10'

# One thread for each of the processes, which share the cores. The files come in their order: the long ones are first.
test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder -m 'not engines'

engines: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs -m engines tests/unit

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed
	$(BIN)/python -c 'from api.report import settings_page; print(settings_page(), end="")' > docs/settings.md

site: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict --config-file docs/site/mkdocs.yml

clean:
	rm -rf state demo.wav

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed; name it: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_ARGS) -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_ARGS) -e '.[dev,$(TEST_EXTRAS)]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_ARGS) -e '.[docs]'
	touch $@ $(VENV)/.installed

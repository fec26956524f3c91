# `make demo`, `make test`, `make docs`, `make dist`: each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test docs dist pictures bench format clean

demo: $(VENV)/.installed
	$(BIN)/efc run --dataset digits --scenario class --methods efc,efc-paper,ewc,sgd,analytic \
	  --head least_squares,analytic --seeds 5 \
	  --out results/demo --overwrite

test: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

# The manual, into site/: open site/index.html. The variable silences an advertisement.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# An sdist and a wheel in dist/, looked through; the wheel is installed into a fresh environment and tried.
dist: $(VENV)/.installed-dist
	$(BIN)/python tools/dist.py

pictures: $(VENV)/.installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/pictures.py

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/tolerance.py
	$(BIN)/python benchmarks/solvers.py
	$(BIN)/python benchmarks/scaling.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) site build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: EXTRAS = plots,report,serve
$(VENV)/.installed-docs: EXTRAS = docs
$(VENV)/.installed-dist: EXTRAS = dist
$(VENV)/.installed-dev: EXTRAS = dev

$(VENV)/.installed $(VENV)/.installed-docs $(VENV)/.installed-dist $(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing efc[$(EXTRAS)] into $(VENV). If torch is not there yet, this takes minutes: it is 0.2 GB for"
	@echo "the CPU alone, and several GB with the GPU libraries (README.md says how to choose)."
	$(BIN)/python -m pip install -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

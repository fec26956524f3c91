# Two commands: `make demo` and `make test`. Both set up what they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test bench format clean

demo: $(VENV)/.installed
	$(BIN)/efc run --dataset digits --scenario class --methods efc,ewc,sgd \
	  --head random,least_squares,analytic --seeds 5 \
	  --out results/demo --overwrite

test: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

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
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[plots,report]'
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

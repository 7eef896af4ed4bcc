# Everything runs inside .venv, which the first target that needs it creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup lock tools run test test-slow test-all test-oldest mutants check docs dist bench clean

setup: $(STAMP)

# Files of locks/ alone, by their hashes, and wheels alone: what builds a source could be anything. pymetis has no wheel for
# Linux on ARM and for Windows: there, make setup WHEELS= builds its source, whose hash is known, with tools that no lock has.
WHEELS := --only-binary=:all:
LOCKED := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes $(WHEELS)

# Reinstalled only when what is installed could have changed: the package itself is an editable install. Its last step
# may not use an index, so a dependency that no lock has is an error. torch comes without CUDA if pip is configured to
# find that build and locks/torch-cpu.txt knows it, or if it is installed in $(VENV) already; else as the index has it.
$(STAMP): pyproject.toml $(wildcard locks/*.txt)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "veilgraph needs Python 3.11 or newer; try: make PYTHON=python3.11 " + "setup")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(LOCKED) --no-deps --requirement locks/torch-cpu.txt || $(LOCKED) --no-deps --requirement locks/torch.txt
	$(LOCKED) --requirement locks/build.txt --requirement locks/collector.txt --requirement locks/develop.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-index --no-build-isolation --editable '.[dev,docs]' || { echo "locks/ does not fit pyproject.toml: run make lock"; exit 1; }
	@touch $@

# Writes locks/. Versions stay unless pyproject.toml forbids them: make lock LOCK=--upgrade takes the newest of all.
LOCK :=
lock:
	test -x $(BIN)/uv || $(MAKE) setup
	$(BIN)/python tests/support/locks.py $(LOCK)

run: setup
	$(BIN)/veilgraph run

# One thread per worker: two workers whose threads wait for each other are many times slower. Compiled modules are kept,
# whatever the environment says: some hundred tests start the package as a program.
PYTEST_ENV := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
PYTEST := $(PYTEST_ENV) $(BIN)/python -m pytest -n auto --dist worksteal

test: setup
	$(PYTEST) -m 'not slow'

# axe-core, which looks for barriers on the pages, and prettier, which formats JavaScript. Without npm, the tests that use
# the first are skipped, and so is the check by the second.
FROM_NPM := tests/node_modules/.package-lock.json
tools: $(FROM_NPM)
$(FROM_NPM): tests/package-lock.json
	-npm ci --prefix tests --ignore-scripts --no-audit --no-fund && touch $@

# Browsers, databases, torchrun, thousands of clients, and every program of the documentation.
test-slow: setup $(FROM_NPM)
	$(PYTEST) -m slow

test-all: setup $(FROM_NPM)
	$(PYTEST)

# The lower bounds of pyproject.toml, in an environment of their own. Their wheels are for Python 3.11 and 3.12. Warnings
# that old libraries cause are no errors. KEEP names packages that stay as in locks/: make test-oldest KEEP=torch
# where there is no wheel of the oldest torch.
OLDEST := .venv-oldest
KEEP :=
test-oldest:
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tests/support/lower_bounds.py $(KEEP) > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/constraints.txt --editable '.[collector,lab,test]'
	$(PYTEST_ENV) $(OLDEST)/bin/python -m pytest -n auto --dist worksteal -m 'not slow' -W default

# Small mistakes in a folder of the package, a seeded sample of them: its tests must find each. make mutants FOLDER=privacy
FOLDER := privacy
SAMPLE := 40
mutants: setup
	$(PYTEST_ENV) nice -n 10 $(BIN)/python -m tests.support.mutants $(FOLDER) --sample $(SAMPLE)

PRETTIER := tests/node_modules/.bin/prettier
JAVASCRIPT := 'src/**/*.js' 'src/**/*.d.ts' 'tests/**/*.mjs'
check: setup $(FROM_NPM)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	@if test -x $(PRETTIER); then echo '$(PRETTIER) --check' && $(PRETTIER) --check $(JAVASCRIPT); \
	else echo 'SKIPPED: the format of JavaScript, which prettier checks; install npm to check it' && test -z "$$VEILGRAPH_REQUIRE_SERVICES"; fi
	$(BIN)/mypy

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# A wheel, an sdist, and the hashes of the participant's page in dist/.
dist: setup
	$(BIN)/python -m build
	$(BIN)/python -m veilgraph.collector.page_hashes > dist/SHA256SUMS

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(OLDEST) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

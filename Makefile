# Every target sets itself up: the first run makes .venv and installs the project into it, later runs start at once.
# Give another interpreter as PYTHON=python3.12, and arguments of pytest or of the benchmark as ARGS="...".

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The schemas come with check-jsonschema.
SCHEMA := @$(BIN)/check-jsonschema --quiet --builtin-schema vendor.
# The first thing that it installs is itself: 25.1 is the first version that knows groups.
PIP := python -m pip install -qq --no-compile --disable-pip-version-check

# `make bench -- --corpus DIR`: what follows the target is the benchmark's, not make's.
ifeq (bench,$(firstword $(MAKECMDGOALS)))
  WORDS := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
  ARGS += $(WORDS) $(filter -%,$(MAKEOVERRIDES))
  ifneq (,$(WORDS))
    .PHONY: $(WORDS)
    $(WORDS): ; @:
  endif
endif

# The tests start hundreds of processes: without bytecode on disk each of them would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

# Environments of their own for the site, for other plugins, for other parsers and for a release: `make test` and `make check` need none.
DOCS := .venv-docs
PLUGINS := .venv-plugins
PEERS := .venv-peers
RELEASE := .venv-release

.PHONY: help demo fleet-demo test test-asyncio test-reactor coverage check bench conformance matrix plugins docs docs-serve release-check clean
.DEFAULT_GOAL := help

help:
	@echo "make demo        crawl the embedded demo site and say of each page whether it may be fetched, and why"
	@echo "make fleet-demo  crawl a few hundred made-up sites with four workers that share all they know by a Redis server"
	@echo "make test        the test suite, with the asyncio reactor and with another one"
	@echo "make coverage    the tests, and how much of the package they execute (lines and branches)"
	@echo "make check       ruff, mypy --strict, and the project's own checks of shape and documents"
	@echo "make bench       measure against the other parsers and in whole crawls (make bench -- --corpus DIR)"
	@echo "make conformance ask the other parsers the cases of docs/conformance.jsonl (ARGS=--write records the answers)"
	@echo "make matrix      the test suite on every CPython found, and with the oldest and the newest dependencies"
	@echo "make plugins     run the recipes of docs/plugins.md with the plugins that they are for, in an environment of their own"
	@echo "make docs        make the pictures anew, and the documents as a site in build/site (make docs-serve shows it)"
	@echo "make release-check  build the package, and look at it as the package index, an installer and type checkers do"
	@echo "make clean       remove the environments and caches"

$(READY): pyproject.toml
	@test -x $(BIN)/python || { python=$${PYTHON:-$$(sh tools/find_python.sh)} && [ -n "$$python" ] && \
		echo "Setting up $(VENV) with $$python" >&2 && "$$python" -m venv $(VENV); }
	@$(BIN)/$(PIP) "pip>=25.1" && $(BIN)/$(PIP) --group dev --editable ".[archive,fleet]"
	@touch $@

# The same for the others, with the tools of one group each.
$(DOCS)/.ready: GROUP := docs
$(PLUGINS)/.ready: GROUP := plugins
$(PLUGINS)/.ready: EXTRAS := [fleet]
$(PEERS)/.ready: GROUP := peers
$(RELEASE)/.ready: GROUP := release
$(DOCS)/.ready $(PLUGINS)/.ready $(PEERS)/.ready $(RELEASE)/.ready: pyproject.toml
	@test -x $(@D)/bin/python || { python=$${PYTHON:-$$(sh tools/find_python.sh)} && [ -n "$$python" ] && \
		echo "Setting up $(@D) with $$python" >&2 && "$$python" -m venv $(@D); }
	@$(@D)/bin/$(PIP) "pip>=25.1" && $(@D)/bin/$(PIP) --group $(GROUP) --editable ".$(EXTRAS)"
	@touch $@

demo: $(READY)
	@cd example_project && ../$(BIN)/scrapy crawl demo

fleet-demo: $(READY)
	@cd example_project && ../$(BIN)/python -m fleet $(ARGS)

# Beside each other, since both wait for clocks and other processes much of their time.
test: $(READY)
	@log=$$(mktemp); $(MAKE) --no-print-directory test-reactor >"$$log" 2>&1 & other=$$!; \
		$(MAKE) --no-print-directory test-asyncio; code=$$?; \
		wait $$other || code=1; cat "$$log"; rm -f "$$log"; exit $$code

test-asyncio: $(READY)
	$(BIN)/python -m pytest -n auto $(ARGS)

test-reactor: $(READY)
	$(BIN)/python -m pytest -n auto --reactor=default -m reactor $(ARGS)

# With the processes that the tests start.
coverage: $(READY)
	@rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -n auto $(ARGS)
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage report

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.check_files
	$(BIN)/python -m tools.check_docs
	$(SCHEMA)github-workflows .github/workflows/*.yml
	$(SCHEMA)github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(SCHEMA)github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA)dependabot .github/dependabot.yml
	$(SCHEMA)readthedocs .readthedocs.yaml
	$(SCHEMA)citation-file-format CITATION.cff

bench: $(READY)
	@$(BIN)/python -m bench $(ARGS)

conformance: $(PEERS)/.ready
	@$(PEERS)/bin/python -m bench.conformance $(ARGS)

matrix:
	@python=$${PYTHON:-$$(sh tools/find_python.sh)} && "$$python" -m tools.matrix $(ARGS)

plugins: $(PLUGINS)/.ready
	$(PLUGINS)/bin/python -m pytest -n 2 tests/plugins $(ARGS)

docs: $(DOCS)/.ready
	@$(DOCS)/bin/python -m tools.pictures
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet && echo "build/site/index.html"

docs-serve: $(DOCS)/.ready
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs serve $(ARGS)

release-check: $(RELEASE)/.ready
	@$(RELEASE)/bin/python -m tools.release $(ARGS)

clean:
	rm -rf $(VENV) $(DOCS) $(PLUGINS) $(PEERS) $(RELEASE) .venv-matrix build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

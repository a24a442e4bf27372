# Each target creates the environment that it needs. Use PYTHON=python3.12 for another interpreter, and
# ARGS="..." for arguments of pytest or of a benchmark.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The schemas come with check-jsonschema.
SCHEMA := @$(BIN)/check-jsonschema --quiet --builtin-schema vendor.
# pip upgrades itself first, because dependency groups need 25.1.
PIP := python -m pip install -qq --no-compile --disable-pip-version-check

# Pass the arguments after the target to the benchmark: `make bench -- --corpus DIR`.
ifeq (bench,$(firstword $(MAKECMDGOALS)))
  WORDS := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
  ARGS += $(WORDS) $(filter -%,$(MAKEOVERRIDES))
  ifneq (,$(WORDS))
    .PHONY: $(WORDS)
    $(WORDS): ; @:
  endif
endif

# The tests start hundreds of processes, and without bytecode on disk each would compile the package.
unexport PYTHONDONTWRITEBYTECODE

# Separate environments, so that `make test` and `make check` do not need these packages.
DOCS := .venv-docs
PLUGINS := .venv-plugins
PEERS := .venv-peers
RELEASE := .venv-release
TOX := .venv-tox
# Puts the interpreters of pyenv on PATH, where it has only shims.
PYENV = PATH="$$(printf '%s:' $${PYENV_ROOT:-$$HOME/.pyenv}/versions/*/bin)$$PATH"

.PHONY: help demo fleet-demo test test-asyncio test-reactor coverage check pictures bench conformance matrix plugins docs docs-serve release-check clean
.DEFAULT_GOAL := help

help:
	@echo "make demo           crawl small local sites, and show which pages are dropped, and why"
	@echo "make fleet-demo     crawl 300 local sites with four workers that share robots.txt files on Redis"
	@echo "make test           run the tests, with the asyncio reactor and with another one"
	@echo "make coverage       run the tests, and report which lines and branches they miss"
	@echo "make pictures       draw the pictures of the documents"
	@echo "make check          run ruff, mypy --strict, and checks of documents"
	@echo "make bench          compare parsers and memory; ARGS=--all runs all benchmarks, ARGS='--all --quick' small ones"
	@echo "make conformance    compare verdicts with other parsers (ARGS=--write records them)"
	@echo "make matrix         run the tests on each CPython found, with the oldest and newest dependencies (tox)"
	@echo "make plugins        test the recipes of docs/plugins.md with the plugins"
	@echo "make docs           build the documentation in build/site (make docs-serve serves it)"
	@echo "make release-check  build the package, and check it as PyPI, installers and type checkers do"
	@echo "make clean          remove environments and caches"

$(READY): pyproject.toml
	@test -x $(BIN)/python || { python=$${PYTHON:-$$(sh tools/find_python.sh)} && [ -n "$$python" ] && \
		echo "Setting up $(VENV) with $$python" >&2 && "$$python" -m venv $(VENV); }
	@$(BIN)/$(PIP) "pip>=25.1" && $(BIN)/$(PIP) --group dev --editable ".[archive,redis]"
	@touch $@

# The other environments have one dependency group each.
$(DOCS)/.ready: GROUP := docs
$(PLUGINS)/.ready: GROUP := plugins
$(PLUGINS)/.ready: EXTRAS := [redis]
$(PEERS)/.ready: GROUP := peers
$(RELEASE)/.ready: GROUP := release
$(TOX)/.ready: GROUP := matrix
$(DOCS)/.ready $(PLUGINS)/.ready $(PEERS)/.ready $(RELEASE)/.ready $(TOX)/.ready: pyproject.toml
	@test -x $(@D)/bin/python || { python=$${PYTHON:-$$(sh tools/find_python.sh)} && [ -n "$$python" ] && \
		echo "Setting up $(@D) with $$python" >&2 && "$$python" -m venv $(@D); }
	@$(@D)/bin/$(PIP) "pip>=25.1" && $(@D)/bin/$(PIP) --group $(GROUP) --editable ".$(EXTRAS)"
	@touch $@

demo: $(READY)
	@cd example_project && ../$(BIN)/scrapy crawl demo

fleet-demo: $(READY)
	@cd example_project && ../$(BIN)/python -m fleet $(ARGS)

# Both at once, because tests often wait for timers and processes.
test: $(READY)
	@log=$$(mktemp); $(MAKE) --no-print-directory test-reactor >"$$log" 2>&1 & other=$$!; \
		$(MAKE) --no-print-directory test-asyncio; code=$$?; \
		wait $$other || code=1; cat "$$log"; rm -f "$$log"; exit $$code

test-asyncio: $(READY)
	$(BIN)/python -m pytest -n auto $(ARGS)

# One process, because these tests run beside the others and mostly wait.
test-reactor: $(READY)
	$(BIN)/python -m pytest --reactor=default -m reactor $(ARGS)

# It includes the processes that the tests start.
coverage: $(READY)
	@rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -n auto $(ARGS); code=$$?; \
		$(BIN)/coverage combine --quiet && $(BIN)/coverage report && exit $$code

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/rumdl check --no-cache .
	@echo "Looking for paths of one machine, registries, and the address of the repository"
	@! git grep -nIE '(^|[^[:alnum:]_./])/(home|root|Users|work)/[[:alnum:]_.]' -- ':!tests' ':!Makefile'
	@! git grep -nIE 'pypi\.org|pythonhosted\.org|index-url|npmjs\.' -- ':!tests' ':!Makefile'
	@! git grep -nI 'github\.com/[^/]*/scrapy-robots-rfc' -- ':!pyproject.toml' ':!Makefile'
	$(BIN)/python -m tools.pictures --check
	$(SCHEMA)github-workflows .github/workflows/*.yml
	$(SCHEMA)github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(SCHEMA)github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA)dependabot .github/dependabot.yml
	$(SCHEMA)readthedocs .readthedocs.yaml
	$(SCHEMA)citation-file-format CITATION.cff

# It needs Chromium.
pictures: $(READY)
	$(BIN)/python -m tools.pictures

bench: $(READY)
	@$(BIN)/python -m bench $(ARGS)

conformance: $(PEERS)/.ready
	@$(PYENV) $(PEERS)/bin/python -m bench.conformance $(ARGS)

matrix: $(TOX)/.ready
	@$(PYENV) $(TOX)/bin/tox run $(ARGS)

plugins: $(PLUGINS)/.ready
	$(PLUGINS)/bin/python -m pytest -n 2 tests/plugins $(ARGS)

docs: $(DOCS)/.ready
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet && echo "build/site/index.html"

docs-serve: $(DOCS)/.ready
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs serve $(ARGS)

release-check: $(RELEASE)/.ready
	@rm -rf dist && $(RELEASE)/bin/python -m build
	@$(RELEASE)/bin/twine check --strict dist/*
	@$(RELEASE)/bin/check-wheel-contents dist/*.whl
	@$(RELEASE)/bin/validate-pyproject pyproject.toml
	@$(RELEASE)/bin/python -m venv --clear build/wheel && build/wheel/bin/$(PIP) dist/*.whl && build/wheel/bin/pip check
	@echo 'User-agent: *' >build/wheel/robots.txt && cd build/wheel && \
		bin/scrapy robots check https://example.com/ --robots robots.txt | grep '^allowed'
	@export VIRTUAL_ENV=build/wheel PATH="$$PWD/build/wheel/bin:$$PATH"; \
		$(RELEASE)/bin/pyright --verifytypes scrapy_robots_rfc --ignoreexternal | tail -8
	@$(RELEASE)/bin/python -m tools.release $(ARGS)

clean:
	rm -rf $(VENV) $(DOCS) $(PLUGINS) $(PEERS) $(RELEASE) $(TOX) .venv-matrix build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Every developer command. `make` alone lists them; each sets up what it needs by itself.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STAMP_BENCH := $(VENV)/.installed-bench
STAMP_PAGE := $(VENV)/.installed-page
JOBS ?= 2
# The versions that `make setup` installs; `make constraints` writes them anew.
CONSTRAINTS ?= constraints.txt
MINIMUM := .venv-minimum
# The older Sparks that `make test-sparks` runs, the newest release of each.
SPARKS ?= 4.0.5 4.1.4 4.2.1
# What `make simulate` runs.
SEEDS ?= 0..500
SECONDS ?=
# What `make chaos` runs.
ROUNDS ?= 50
FIRST ?= 0
# What `make fuzz` sends, from the frame FIRST on.
FRAMES ?= 1000000
# Where `make kafka` listens on loopback.
PORT ?= 9092
# The first Python that is new enough; override with `make PYTHON=/path/to/python3.12 ...`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
# Strict types where a wrong type would be a wrong result: the language, the engine, the protocols and what they rest on.
TYPED := src/headwater

.DEFAULT_GOAL := help
.PHONY: help setup constraints demo test test-core test-slow test-spark test-sparks test-minimum check dist format lint types pages bench bench-quick bench-sharing bench-tree bench-spark bench-stream bench-deco bench-holon simulate chaos fuzz kafka kafka-stop test-kafka test-page java clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv and install headwater with everything for development

constraints: ## write constraints.txt: the newest libraries within the bounds of pyproject.toml
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/pip install --quiet --disable-pip-version-check '.[dev,bench,page-test]'
	build/constraints/bin/pip freeze | grep -v '^headwater' > constraints.txt

demo: $(STAMP) ## run window queries of different kinds over generated smart-home events, on Spark
	@$(BIN)/headwater demo

test: test-core test-spark ## run all tests and the examples in the docs (some ten minutes)

test-core: $(STAMP) ## run the tests that need no Spark (a few minutes)
	$(BIN)/python -m pytest -n $(JOBS)

test-slow: $(STAMP) ## run the long tests, and those with Kafka, PostgreSQL, Spark Connect and processes that die (up to an hour)
	$(BIN)/python -m pytest -n $(JOBS) -m "(slow or postgres) and not spark and not kafka and not page"
	$(BIN)/python -m pytest -m "(slow and spark) or kafka or chaos or connect" tests/spark

test-spark: $(STAMP) ## run the tests that start a Spark (a few minutes; skipped where there is no Java 17)
	$(BIN)/python -m pytest -m "spark and not slow and not page" tests/spark

test-sparks: ## run the tests of every door with each older Spark that has it, in environments of their own: SPARKS="4.0.5 4.1.4 4.2.1"
	@mkdir -p build
	@for version in $(SPARKS); do \
		sed "s/^pyspark==.*/pyspark==$$version/" constraints.txt > build/spark-$$version.txt; \
		echo "Spark $$version"; \
		$(MAKE) --no-print-directory test-spark VENV=.venv-spark-$$version CONSTRAINTS=build/spark-$$version.txt || exit 1; \
	done

test-minimum: ## run all tests with the oldest libraries that pyproject.toml allows, in a $(MINIMUM) of their own
	@mkdir -p build
	@scripts/minimum_versions > build/minimum.txt
	@$(MAKE) --no-print-directory test VENV=$(MINIMUM) CONSTRAINTS=build/minimum.txt

check: lint types test ## what CI runs: format, lint, types, tests

dist: $(STAMP) ## build the wheel, and run a first job from it in an empty environment without Spark (a few minutes)
	@$(BIN)/python scripts/try_dist

format: $(STAMP) ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## check format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP) ## check the types
	$(BIN)/mypy $(TYPED)

pages: $(STAMP) ## draw the README's picture and write docs/windows.md from the transcripts
	$(BIN)/python scripts/draw_picture.py
	$(BIN)/python scripts/write_windows_page.py

bench: $(STAMP_BENCH) ## measure the engine against its bounds and its peers (up to 15 minutes)
	@$(BIN)/headwater bench engine

bench-quick: $(STAMP_BENCH) ## a smoke run of the same (up to 2 minutes)
	@$(BIN)/headwater bench engine --quick

bench-sharing: $(STAMP_BENCH) ## what sharing brings: every mode from 1 to 1,000 queries, with plots
	@$(BIN)/headwater bench sharing --plots bench-plots

bench-tree: $(STAMP_BENCH) ## bytes on links and processor time of nodes, with plots (2 minutes)
	@$(BIN)/headwater bench tree --plots bench-plots

bench-spark: $(STAMP) ## windows on Spark against Spark's own (up to 15 minutes, needs Java 17)
	@$(BIN)/headwater bench spark

bench-stream: $(STAMP) ## streams on Spark against Spark's own (up to 25 minutes, needs Java 17)
	@$(BIN)/headwater bench stream

bench-deco: $(STAMP_BENCH) ## count windows over many nodes, every scheme in one run, with plots (up to 45 minutes)
	@$(BIN)/headwater bench deco --plots bench-plots

bench-holon: $(STAMP_BENCH) ## nodes without a coordinator: what they cost, and what they tell each other (4 minutes)
	@$(BIN)/headwater bench holon --part core

simulate: $(STAMP) ## run simulated trees, count windows, nodes without a root and streams with all faults: SEEDS=0..500, SECONDS= (each as long as asked)
	@$(BIN)/headwater simulate tree --seeds $(SEEDS) --jobs $(JOBS) $(if $(SECONDS),--seconds $(SECONDS))
	@$(BIN)/headwater simulate count-windows --seeds $(SEEDS) --jobs $(JOBS) $(if $(SECONDS),--seconds $(SECONDS))
	@$(BIN)/headwater simulate holon --seeds $(SEEDS) --jobs $(JOBS) $(if $(SECONDS),--seconds $(SECONDS))
	@$(BIN)/headwater simulate stream --seeds $(SEEDS) --jobs $(JOBS) $(if $(SECONDS),--seconds $(SECONDS))

chaos: $(STAMP) ## kill drivers and executors of streams on a cluster, round after round: ROUNDS=50, FIRST=0 (the first seed)
	@PYTHONPATH=$(CURDIR)/src:$(CURDIR)/tests $(BIN)/python -m spark.streaming.chaos --rounds $(ROUNDS) --first $(FIRST)

fuzz: $(STAMP) ## mutated and made-up frames at a root, a relay and a leaf: FRAMES=1000000, FIRST=0 (the first frame), SECONDS=
	@PYTHONPATH=$(CURDIR)/src:$(CURDIR)/tests $(BIN)/python -m fuzz.storm --frames $(FRAMES) --first $(FIRST) $(if $(SECONDS),--seconds $(SECONDS))

kafka: $(STAMP) ## start a Kafka broker on this machine (fetched once with Maven): PORT=9092
	-@$(BIN)/python scripts/kafka connector
	@$(BIN)/python scripts/kafka start --port $(PORT)

kafka-stop: $(STAMP) ## stop it
	@$(BIN)/python scripts/kafka stop

test-kafka: $(STAMP) ## run the tests that need a Kafka broker; they start one (a minute; skipped where Maven or Java is missing)
	$(BIN)/python -m pytest -m kafka tests/spark/streaming/kafka

test-page: $(STAMP_PAGE) ## open the live page in a headless Chromium (2 minutes; skipped where there is none, on Spark where there is no Java 17)
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		echo "There is no Chromium, so these tests are skipped: install one (Debian: apt-get install chromium)."
	$(BIN)/python -m pytest -m page tests/page tests/spark/streaming/watch

java: ## look for the Java that Spark needs
	@scripts/find_java

clean: ## remove .venv and everything generated
	rm -rf $(VENV) $(MINIMUM) .venv-spark-* build dist bench-plots headwater-demo headwater-demo.html src/*.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is newer than pyproject.toml and the constraints exactly while the installed environment fits it, so a second run starts at once.
$(STAMP): pyproject.toml $(CONSTRAINTS)
	@test -n "$(PYTHON)" || { echo "headwater needs Python 3.11 or newer, and none was found. Install one" \
		"(Debian, Ubuntu: sudo apt-get install python3 python3-venv; macOS: brew install python) or name it: make PYTHON=..."; exit 1; }
	@test -x $(BIN)/pip || { echo "Creating $(VENV) with $(PYTHON) ..."; rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot create a virtual environment (Debian, Ubuntu: sudo apt-get install python3-venv)."; exit 1; }
	@echo "Installing headwater and its libraries into $(VENV) (once, a few minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev]'
	@scripts/find_java
	@touch $@

$(STAMP_PAGE): $(STAMP)
	@echo "Installing what drives a browser ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev,page-test]'
	@touch $@

$(STAMP_BENCH): $(STAMP)
	@echo "Installing the libraries of the benchmarks ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev,bench]'
	@touch $@

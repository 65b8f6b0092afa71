# Everything a developer runs. Each target sets itself up: `make test` on a clean clone needs no other command first.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup shims format lint test warm unit sim sim-pairs coverage coverage-kafka fuzz mutate spark kafka versions versions-setup once-more integration conformance conformance-versions every-spark soak crash nightly run run-bucket run-cluster run-kafka picture quickstart notebook bench bench-kafka bench-targets bench-growth bench-operations bench-quick docs docs-version wheel release-check clean

# Tests start hundreds of Python processes: what is imported is compiled once, whatever the caller's shell says.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
# Another release of Spark than the newest: make spark SPARK=4.0.5. It has an environment of its own.
VENV := .venv$(if $(SPARK),-spark-$(SPARK))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNNABLE := $(VENV)/.runnable
WARM := $(VENV)/.warm$(if $(JAVA),-java-$(JAVA))
# Another release of Java than the machine's for the JVMs of tests: make spark JAVA=25. The jars are built by the machine's.
RUNTIME := $(if $(JAVA),build/java-$(JAVA)/bin/java)
ON_JAVA := $(if $(JAVA),JAVA_HOME=$(CURDIR)/build/java-$(JAVA))
WORKERS ?= 2
SEEDS ?= 0-9999
# The releases of Spark that `make versions` runs on: beside the newest, which all other targets run on.
SPARKS ?= 4.0.5 4.1.4 4.2.1
# The releases of Java that it runs on, with the newest Spark.
JAVAS ?= 21 25
# Of what repeats one law many times (seeds, walks, tests once more on other stores, Spark's own tests, planted faults, the
# fuzzer's inputs), run a part: SHARD=2/60. CI runs one shard of sixty at each commit.
OF_SHARD = $(if $(SHARD),--shard=$(SHARD))
PYTEST = $(ON_JAVA) $(BIN)/python -m pytest --numprocesses $(WORKERS)
# All but what `make crash` and `make once-more` are for.
DAILY := not walk and not once_more and not in_turn
# The same with every parameter and every one of a kind.
WHOLE := not walk and (not once_more or once_more(by='parameter'))

# What is linted and type-checked; parts that a checkout does not have are passed over.
CODE := $(wildcard python connectors/kafka connectors/postgres connectors/files connectors/tables connectors/search examples benchmarks integration_tests docs/*.py tools/*.py)
TYPED := $(wildcard python/oncelog python/pyspark_oncelog python/simulation python/tests connectors/kafka connectors/postgres connectors/files connectors/tables connectors/search examples benchmarks integration_tests docs/*.py tools/*.py)

# The jars for Spark. Where Java's compiler or Maven is missing, what needs them says so, and tests of them are skipped.
SHIMS := python/oncelog/spark/jars/oncelog-spark.jar connectors/kafka/oncelog_kafka/jars/oncelog-kafka.jar
BUILDABLE := $(if $(shell command -v mvn >/dev/null && command -v $${JAVA_HOME:+$$JAVA_HOME/bin/}javac),$(SHIMS))

# Phrases that are never right, and what to write instead: tools/phrases.txt. Checked in PLAIN, but for the files in
# REWRITE, which still contain some: whoever rewrites one takes it off the list.
PHRASES := (?i)\b(?:$(shell sed 's/->.*//' tools/phrases.txt | paste -sd '|'))\b
PLAIN := $(wildcard docs README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md $(addprefix python/oncelog/,clients coordinator log metrics protocol ui))
REWRITE := $(addprefix docs/,benchmarks.md design/023-faults-at-the-edges.md growth.md reference/cli.md \
  reference/options.md stylesheets/site.css)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Create .venv with oncelog and all it needs (only when pyproject.toml changed)

# What programs need comes first: the quick start waits for no test runner.
$(RUNNABLE): pyproject.toml python/oncelog/version.py tools/check-prerequisites
	@tools/check-prerequisites "$(PYTHON)"
	@echo "Creating $(VENV) with $$("$(PYTHON)" --version)"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@echo "Installing oncelog[spark]"
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --editable ".[spark]" $(if $(SPARK),"pyspark==$(SPARK)")
	@touch $@

$(READY): $(RUNNABLE)
	@echo "Installing oncelog[spark,zookeeper,s3,postgres,delta,iceberg,search,kafka,metrics,ui,testing] and the tools for tests and lint"
	@$(BIN)/python -m pip install --quiet --editable ".[spark,zookeeper,s3,postgres,delta,iceberg,search,kafka,metrics,ui,testing]" $(if $(SPARK),"pyspark==$(SPARK)") --group dev
	@$(BIN)/python -m pip list --format freeze > $@
	@echo "Ready: $$(wc -l < $@) packages, listed in $@"

shims: $(READY) $(SHIMS) $(RUNTIME) ## Build and test the jars of the log and of the Kafka connector with Maven (only when their sources changed)

$(SHIMS) &: $(wildcard jvm_shims/pom.xml jvm_shims/*/pom.xml) $(shell find jvm_shims/*/src -type f 2>/dev/null) python/oncelog/version.py tools/build-shims
	@"$(PYTHON)" tools/build-shims

format: $(READY) ## Sort imports and format the code
	$(BIN)/ruff check --select I --fix $(CODE)
	$(BIN)/ruff format $(CODE)

lint: $(READY) ## Style, types, import direction, spelling, what the forge reads
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell
	$(BIN)/codespell --dictionary tools/phrases.txt --regex '$(PHRASES)' $(addprefix --skip ,$(REWRITE)) $(PLAIN)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec examples/compose/compose.yaml

# Who waits for servers, time-outs or a disk leaves a core to others.
unit: WORKERS = 3
test once-more crash: WORKERS = 4

test: ## Lint and every test but those of `make once-more` and `make crash`
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint warm $(BUILDABLE)
	$(PYTEST) -m "$(DAILY)"

# On a clean clone each worker would compile all tests, and all would wait for one that makes the archive of Spark's
# classes. Here both are done once, while the type checker has the other core. The tests themselves say what is wrong.
warm: $(WARM)

$(WARM): $(READY) $(RUNTIME)
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1 || true
	@cd python && $(ON_JAVA) ../$(BIN)/python -m tests.support.spark.spark_home >/dev/null 2>&1 || true
	@touch $@

build/java-%/bin/java: tools/java-runtime | $(READY)
	@tools/java-runtime $(BIN)/python $* build/java-$*

# Quick tests sync thousands of small files. Where a gigabyte of memory may be a disk, they do it there.
MEMORY := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 1000000 ] 2>/dev/null && echo /dev/shm)
unit: export TMPDIR := $(or $(MEMORY),$(TMPDIR),/tmp)
QUICK_TESTS := $(addprefix python/tests/,unit spec golden)

unit: $(READY) ## The quick tests: without Spark, simulation, random inputs, style, servers, browsers, programs, examples, long walks and packaging
	$(PYTEST) $(QUICK_TESTS) --ignore=python/tests/unit/examples -m "$(DAILY) and not packaging and not programs and not servers and not kafka and not browser and not long and not hypothesis"

sim: $(READY) ## The simulation: SEEDS=0-9999 of crashes, lost answers and pauses, then a crash at every place of each scenario; targets; Kafka's sink
	$(BIN)/python -m simulation --seeds $(SEEDS) $(OF_SHARD) --processes $(WORKERS)
	$(BIN)/python -m simulation --exhaustive singles --processes $(WORKERS)
	$(BIN)/python -m simulation.targets --seeds $(SEEDS) $(OF_SHARD) --processes $(WORKERS)
	$(BIN)/python -m simulation.targets --exhaustive singles --processes $(WORKERS)
	$(BIN)/python -m simulation.kafka --seeds $(SEEDS) $(OF_SHARD) --processes $(WORKERS)
	$(BIN)/python -m simulation.kafka --exhaustive singles $(OF_SHARD) --processes $(WORKERS)
	$(BIN)/python -m simulation.kafka.together --seeds $(SEEDS) $(OF_SHARD) --processes $(WORKERS)

sim-pairs: $(READY) ## Two crashes, or two drivers that stand still, at every two places of each scenario
	$(BIN)/python -m simulation --exhaustive pairs --processes $(WORKERS)
	$(BIN)/python -m simulation.targets --exhaustive pairs --processes $(WORKERS)
	$(BIN)/python -m simulation.kafka --exhaustive pairs --processes $(WORKERS)

# A signal that meets coverage.py while it holds its own lock is the end of the run: tests by signals stay out.
coverage: $(READY) ## Branches that the quick tests take: all of protocol/ and batches/, 92 % of the package (5 minutes)
	$(PYTEST) python/tests --ignore=python/tests/spark -m "$(WHOLE) and not packaging and not kafka" -k "not signals" --cov --cov-report=term --cov-fail-under=92
	$(BIN)/python -m coverage report --include='*/oncelog/protocol/*,*/oncelog/batches/*' --fail-under=100

coverage-kafka: shims ## Branches of the Kafka connector that its tests take in their own processes: 95 % (5 minutes)
	$(PYTEST) connectors/kafka/tests -m "$(WHOLE) and not packaging" --cov=oncelog_kafka --cov-branch --cov-report=
	$(BIN)/python -m coverage report --include='*/oncelog_kafka/*' --fail-under=95

fuzz: $(READY) ## Mutated inputs at every door: a million, or for SECONDS=60; INPUTS=, SEED=
	cd python && ../$(BIN)/python -m tests.fuzz --processes $(WORKERS) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SEED),--seed $(SEED)) $(OF_SHARD)

mutate: $(READY) ## Plant faults into the core, one by one: the tests must catch every one (ONLY=part of a name)
	cd python && ../$(BIN)/python -m tests.mutation --processes $(WORKERS) $(if $(ONLY),--only "$(ONLY)") $(OF_SHARD)

spark: shims ## The tests on Spark
	$(PYTEST) python/tests/spark -m "$(WHOLE)"

kafka: shims ## The tests of the Kafka connector, on brokers from Maven's jars (ONLY="sink_driver ...")
	$(PYTEST) $(if $(ONLY),$(patsubst %,connectors/kafka/tests/test_%.py,$(ONLY)),connectors/kafka/tests) -m "$(WHOLE)"

# Of a list of releases, that of the shard; all without one.
drawn = $(if $(and $(1),$(filter-out 1/1,$(SHARD))),$(shell all=($(1)); n=$(firstword $(subst /, ,$(SHARD))); echo $${all[n % $${#all[@]}]}),$(1))
STREAMS := source_streams source_batches sink_streams sink_by_name
versions: ## The tests on Spark and of the connector's streams once more, on other releases of Spark and Java (SPARKS="4.0.5 4.1.4" JAVAS=25); with SHARD a few on one of each
	@for release in $(call drawn,$(SPARKS)); do \
	    echo "Spark $$release"; \
	    $(MAKE) --no-print-directory $(if $(filter-out 1/1,$(SHARD)),every-spark,spark kafka ONLY="$(STREAMS)") SPARK=$$release; \
	done
	@for release in $(call drawn,$(JAVAS)); do \
	    echo "Java $$release"; \
	    $(MAKE) --no-print-directory $(if $(filter-out 1/1,$(SHARD)),every-spark,spark kafka ONLY="$(STREAMS)") JAVA=$$release; \
	done

versions-setup: ## Create the environments of `make versions`
	@for release in $(call drawn,$(SPARKS)); do $(MAKE) --no-print-directory setup warm SPARK=$$release; done
	@for release in $(call drawn,$(JAVAS)); do $(MAKE) --no-print-directory warm JAVA=$$release; done

every-spark: shims
	$(PYTEST) python/tests/spark connectors/kafka/tests -m "every_spark$(if $(JAVA),(java=True)) and not once_more"

once-more: shims ## The tests by another store, reader, writer, door, version of brokers or parameter, and the many of one kind (BY=zookeeper, parameter, ...)
	$(PYTEST) -m "$(if $(BY),once_more(by='$(BY)'),(once_more or in_turn)) and not walk" $(OF_SHARD)

integration: shims ## The tests on servers in containers; as root on Debian, with an engine and images of its own
	tools/integration $(BIN)/python $(PYTEST) integration_tests $(OF_SHARD) -o faulthandler_timeout=900

conformance: shims ## Spark's own tests of its Kafka connector, on oncelog's (ONLY=part of a suite's and a test's name)
	$(BIN)/python tools/conformance $(if $(ONLY),--only "$(ONLY)") $(OF_SHARD)

conformance-versions: shims ## The same with the tests of older releases of Spark
	$(BIN)/python tools/conformance --spark older $(OF_SHARD)

soak: shims ## Copy records on three stacks while all parts are killed and paused (MINUTES=10 STACKS=sqlite,zookeeper,kafka SEED=)
	$(BIN)/python -m integration_tests.soak --minutes $(or $(MINUTES),10) $(if $(STACKS),--stacks $(STACKS)) $(if $(SEED),--seed $(SEED))

crash: shims ## Stop real queries, tasks and brokers at every named point, on SQLite, ZooKeeper and Kafka; clusters; long searches
	$(PYTEST) --dist worksteal -m walk $(OF_SHARD) -o faulthandler_timeout=1800

nightly: test versions once-more integration conformance conformance-versions crash coverage coverage-kafka sim sim-pairs fuzz mutate soak release-check ## All there is: hours (of once-more, conformance, crash, sim, fuzz and mutate SHARD=2/60 runs a part)

quickstart: ## Set up, write a log, copy it with Spark exactly once and read it back (a minute or two; then seconds)
	@$(MAKE) --silent --no-print-directory --jobs=2 $(RUNNABLE) $(SHIMS) # while pip downloads, Maven compiles
	$(BIN)/python examples/quick_start.py

run: $(READY) ## The main example: real flights, kill -9 at every stage, and an audit
	$(BIN)/python examples/demonstrations/flights_exactly_once.py

picture: build/flights.html | $(READY) ## The picture in the README, of the page that the last `make run` left (needs Chromium)
	cd python && ../$(BIN)/python -m tests.support.docs.picture

build/flights.html:
	$(MAKE) run

run-cluster: $(READY) ## The main example on ZooKeeper and a Spark cluster, of which every part is killed
	$(BIN)/python examples/demonstrations/flights_on_a_cluster.py

run-bucket: $(READY) ## The main example in a bucket that has the whole log, on an S3 server that stands still now and then
	$(BIN)/python examples/demonstrations/flights_in_a_bucket.py

run-kafka: shims ## Flights through Kafka: ten kills, three restarts of the broker, an audit (BY=python, spark-submit or connect; TRANSACTIONS=1)
	$(BIN)/python examples/demonstrations/kafka_exactly_once.py $(if $(BY),--by $(BY)) $(if $(TRANSACTIONS),--transactions $(TRANSACTIONS))

run-everywhere: shims ## Flights into Kafka, PostgreSQL, Iceberg, HDFS and OpenSearch under one decision: ten kills, three restarts, an audit of each
	$(BIN)/python examples/demonstrations/flights_everywhere.py

demo-operations: shims ## Ten failures, one after another: the alert, the page of the runbook, what mends it, an audit (needs Prometheus)
	$(BIN)/python examples/demonstrations/failures_and_alerts.py

notebook: shims ## Run examples/oncelog.ipynb, and write it again with what its cells print
	$(BIN)/python tools/notebook.py

bench: shims ## All benchmarks with their peers; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks

bench-kafka: shims ## Kafka, beside Spark's own connector; writes its part of docs/benchmarks.md (QUICK=1: 2 minutes, no page)
	$(BIN)/python -m benchmarks.kafka $(if $(QUICK),--quick)

bench-targets: shims ## Sinks into databases, tables, files and search, and five together; writes its part of docs/benchmarks.md (QUICK=1: 5 minutes, no page)
	$(BIN)/python -m benchmarks.targets $(if $(QUICK),--quick)

bench-growth: $(READY) ## What operations cost while a log grows; writes docs/growth.md and its curves (QUICK=1: half a minute, no page)
	$(BIN)/python -m benchmarks.growth $(if $(QUICK),--quick)
	$(if $(QUICK),,$(BIN)/python docs/generate.py)

bench-operations: shims ## What it costs to be watched: observe, a scrape, the page; writes its part of docs/benchmarks.md (QUICK=1: 5 minutes, no page)
	$(BIN)/python -m benchmarks.operations $(if $(QUICK),--quick)

bench-quick: shims ## The benchmarks on less data, under 3 minutes
	$(BIN)/python -m benchmarks --quick

docs docs-version: export NO_MKDOCS_2_WARNING = 1
docs: $(READY) ## Generate what the code knows of docs/, and build the site: build/site/index.html
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build
	@echo "To read it, with its search: python3 -m http.server --directory build/site"

docs-version: export DOCS_VERSIONS = mike
docs-version: docs ## Commit the site to the local branch gh-pages, beside those of other versions (VERSION=0.1)
	@test -n "$(VERSION)" || { echo "which version? make docs-version VERSION=0.1"; exit 2; }
	PATH="$(CURDIR)/$(BIN):$$PATH" mike deploy --update-aliases "$(VERSION)" latest
	$(BIN)/mike set-default latest

wheel: shims ## The wheel and the sdist in dist/, with the jars inside
	rm -rf dist
	$(BIN)/python -m build --outdir dist

release-check: wheel ## Whether dist/ is ready to be released: contents, metadata, same bytes twice, each Python of this machine (PYTHONS=)
	$(BIN)/python tools/release_check.py $(PYTHONS)

clean: ## Remove what the other targets made, .venv included
	rm -rf .venv* build dist .coverage .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log
	rm -rf jvm_shims/target jvm_shims/*/target python/oncelog/spark/jars connectors/kafka/oncelog_kafka/jars
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

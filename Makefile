# Everything a developer runs. Each target sets itself up: `make test` on a clean clone needs no other command first.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup shims format lint test unit once-more crash versions coverage sim fuzz mutate integration conformance soak nightly run demo quickstart bench docs wheel clean

# Tests start hundreds of Python processes: compile each module once, whatever the caller's shell is set to.
unexport PYTHONDONTWRITEBYTECODE

# What WHAT= can be, by target. The first one is the default.
test.WHAT := all spark kafka streams sample
coverage.WHAT := core kafka
conformance.WHAT := newest older
demo.WHAT := bucket cluster kafka everywhere operations notebook
bench.WHAT := all kafka targets growth operations
docs.WHAT := site picture
define check-what
ifneq ($$(if $$($(1).WHAT),$$(filter-out $$($(1).WHAT),$$(WHAT))),)
$$(error make $(1) WHAT=$$(WHAT): choose one of $$($(1).WHAT))
endif
endef
$(foreach goal,$(MAKECMDGOALS),$(eval $(call check-what,$(goal))))
# The chosen one of a target.
what = $(or $(WHAT),$(firstword $($(1).WHAT)))

PYTHON ?= python3
# To test on an older release of Spark: make test WHAT=spark SPARK=4.0.5. Each release has a separate environment.
VENV := .venv$(if $(SPARK),-spark-$(SPARK))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNNABLE := $(VENV)/.runnable
WARM := $(VENV)/.warm$(if $(JAVA),-java-$(JAVA))
# To run the JVMs of tests on another release of Java: make test WHAT=spark JAVA=25. The machine's own Java builds the jars.
RUNTIME := $(if $(JAVA),build/java-$(JAVA)/bin/java)
ON_JAVA := $(if $(JAVA),JAVA_HOME=$(CURDIR)/build/java-$(JAVA))
WORKERS ?= 2
SEEDS ?= 0-9999
# The releases of Spark that `make versions` runs on. All other targets run on the newest one.
SPARKS ?= 4.0.5 4.1.4 4.2.1
# The releases of Java that it runs on, with the newest Spark.
JAVAS ?= 21 25
# Runs one part of what repeats a rule many times (seeds, walks, variants of tests, Spark's own tests, planted faults, the
# fuzzer's inputs): SHARD=2/60. CI runs one shard of sixty for each commit.
OF_SHARD = $(if $(SHARD),--shard=$(SHARD))
PYTEST = $(ON_JAVA) $(BIN)/python -m pytest --numprocesses $(WORKERS)
# All tests but those of `make crash` and `make once-more`.
DAILY := not walk and not variant
# The same, with every parameter and the whole of each group.
WHOLE := not walk and (not variant or variant(by='parameter') or variant(by='group'))

# What is linted and type-checked. Parts that are missing from a checkout are skipped.
CODE := $(wildcard python connectors/kafka connectors/postgres connectors/files connectors/tables connectors/search examples benchmarks integration_tests docs/*.py tools/*.py)
TYPED := $(wildcard python/oncelog python/pyspark_oncelog python/simulation python/tests connectors/kafka connectors/postgres connectors/files connectors/tables connectors/search examples benchmarks integration_tests docs/*.py tools/*.py)

# The jars for Spark. Without javac or Maven, targets that need the jars fail with a message, and their tests are skipped.
SHIMS := python/oncelog/spark/jars/oncelog-spark.jar connectors/kafka/oncelog_kafka/jars/oncelog-kafka.jar
BUILDABLE := $(if $(shell command -v mvn >/dev/null && command -v $${JAVA_HOME:+$$JAVA_HOME/bin/}javac),$(SHIMS))

# Phrases that are never right, and what to write instead: tools/phrases.txt. Checked in PLAIN, but for the files in
# REWRITE, which still contain some: if you rewrite one, take it off the list.
PHRASES := (?i)\b(?:$(shell sed 's/->.*//' tools/phrases.txt | paste -sd '|'))\b
PLAIN := $(wildcard docs README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md $(addprefix python/oncelog/,batches checkpoints cli clients coordinator log metrics protocol spark ui znodes) $(addsuffix s/*/oncelog_*,connector))
REWRITE := $(addprefix docs/,benchmarks.md design/023-faults-at-the-edges.md growth.md)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) $(if $(COMPILED),$(WARM)) ## Create .venv with oncelog and all its tools (only if pyproject.toml changed)

# What programs need comes first, so that the quick start does not wait for a test runner.
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

shims: $(READY) $(SHIMS) $(RUNTIME) ## Build and test the jars for Spark with Maven (only if their sources changed)

$(SHIMS) &: $(wildcard jvm_shims/pom.xml jvm_shims/*/pom.xml) $(shell find jvm_shims/*/src -type f 2>/dev/null) python/oncelog/version.py tools/build-shims
	@"$(PYTHON)" tools/build-shims

format: $(READY) ## Sort imports and format the code
	$(BIN)/ruff check --select I --fix $(CODE)
	$(BIN)/ruff format $(CODE)

lint: $(READY) ## Check style, types, import direction, spelling, and the files that the forge reads
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell
	$(BIN)/codespell --dictionary tools/phrases.txt --regex '$(PHRASES)' $(addprefix --skip ,$(REWRITE)) $(PLAIN)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec examples/compose/compose.yaml

# Tests that wait for servers, time-outs or a disk leave a core free.
unit: WORKERS = 3
$(if $(filter-out all,$(WHAT)),,test) once-more crash: WORKERS = 4

kafka_tests = $(patsubst %,connectors/kafka/tests/test_%.py,$(1))
TESTS.spark := python/tests/spark
TESTS.kafka := $(or $(call kafka_tests,$(ONLY)),connectors/kafka/tests)
TESTS.streams := $(TESTS.spark) $(call kafka_tests,source_streams source_batches sink_streams sink_by_name)
TESTS.sample := $(TESTS.spark) connectors/kafka/tests
CHOSEN := $(if $(filter sample,$(WHAT)),every_spark$(if $(JAVA),(java=True)) and (not variant or variant(by='group')),$(WHOLE))

test: $(if $(filter-out all,$(WHAT)),shims) ## Lint, then run the tests that are not in once-more or crash (WHAT=spark, kafka (ONLY="sink_driver ..."): no lint; SPARK=4.0.5, JAVA=25)
ifneq ($(call what,test),all)
	$(PYTEST) $(TESTS.$(WHAT)) -m "$(CHOSEN)"
else
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint $(WARM) $(BUILDABLE)
	$(PYTEST) -m "$(DAILY)"
endif

# On a clean clone each worker would compile all tests, and all would wait for the one that builds the archive of Spark's
# classes. Here both are done once, while the type checker uses the other core. The tests themselves report what is wrong.
$(WARM): $(READY) $(RUNTIME)
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1 || true
	@cd python && $(ON_JAVA) ../$(BIN)/python -m tests.support.spark.spark_home >/dev/null 2>&1 || true
	@touch $@

build/java-%/bin/java: tools/java-runtime | $(READY)
	@tools/java-runtime $(BIN)/python $* build/java-$*

# The quick tests sync thousands of small files: on a disk in memory, if a gigabyte is free.
MEMORY := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 1000000 ] 2>/dev/null && echo /dev/shm)
unit: export TMPDIR := $(or $(MEMORY),$(TMPDIR),/tmp)
QUICK_TESTS := $(addprefix python/tests/,unit spec golden)

unit: $(READY) ## Run the quick tests: no Spark, servers, browsers, programs, random inputs or packaging
	$(PYTEST) $(QUICK_TESTS) --ignore=python/tests/unit/examples -m "$(DAILY) and not slow and not hypothesis"

once-more: shims ## Run the tests again with other stores, readers, writers, entry points and parameters (BY=zookeeper, parameter, ...)
	$(PYTEST) -m "variant$(if $(BY),(by='$(BY)')) and not walk" $(OF_SHARD)

crash: shims ## Kill real queries, tasks and brokers at every named crash point; clusters; long searches
	$(PYTEST) --dist worksteal -m walk $(OF_SHARD) -o faulthandler_timeout=1800

# A shard runs a few tests on one release of each list.
drawn = $(if $(and $(1),$(filter-out 1/1,$(SHARD))),$(shell all=($(1)); n=$(firstword $(subst /, ,$(SHARD))); echo $${all[n % $${#all[@]}]}),$(1))
ON_RELEASE := $(if $(SETUP),setup COMPILED=1,test WHAT=$(if $(filter-out 1/1,$(SHARD)),sample,streams))
versions: ## Run the tests of streams on other releases of Spark and Java (SPARKS="4.0.5 4.1.4" JAVAS=25; SETUP=1: only install them)
	@for release in $(call drawn,$(SPARKS)); do echo "Spark $$release"; $(MAKE) --no-print-directory $(ON_RELEASE) SPARK=$$release; done
	@for release in $(call drawn,$(JAVAS)); do echo "Java $$release"; $(MAKE) --no-print-directory $(ON_RELEASE) JAVA=$$release; done

# A signal that arrives while coverage.py holds its own lock would hang the run: tests by signals are left out.
coverage: $(if $(filter kafka,$(WHAT)),shims,$(READY)) ## Check the share of branches that the quick tests take: 100 % of protocol/ and batches/, 92 % of all (WHAT=kafka: the connector)
ifeq ($(WHAT),kafka)
	$(PYTEST) connectors/kafka/tests -m "$(WHOLE)" --cov=oncelog_kafka --cov-branch --cov-report=
	$(BIN)/python -m coverage report --include='*/oncelog_kafka/*' --fail-under=95
else
	$(PYTEST) python/tests --ignore=python/tests/spark --ignore=python/tests/style/test_wheel.py -m "$(WHOLE)" -k "not signals" --cov --cov-report=term --cov-fail-under=92
	$(BIN)/python -m coverage report --include='*/oncelog/protocol/*,*/oncelog/batches/*' --fail-under=100
endif

sim: $(READY) ## Simulate crashes, lost answers and pauses by SEEDS=0-9999, then a crash at every point (EXHAUSTIVE=pairs: at every two points)
ifndef EXHAUSTIVE
	$(BIN)/python -m simulation --seeds $(SEEDS) $(OF_SHARD) --processes $(WORKERS)
	$(BIN)/python -m simulation.targets --seeds $(SEEDS) $(OF_SHARD) --processes $(WORKERS)
	$(BIN)/python -m simulation.kafka --seeds $(SEEDS) $(OF_SHARD) --processes $(WORKERS)
	$(BIN)/python -m simulation.kafka.together --seeds $(SEEDS) $(OF_SHARD) --processes $(WORKERS)
endif
	$(BIN)/python -m simulation --exhaustive $(or $(EXHAUSTIVE),singles) --processes $(WORKERS)
	$(BIN)/python -m simulation.targets --exhaustive $(or $(EXHAUSTIVE),singles) --processes $(WORKERS)
	$(BIN)/python -m simulation.kafka --exhaustive $(or $(EXHAUSTIVE),singles) $(OF_SHARD) --processes $(WORKERS)

fuzz: $(READY) ## Send mutated inputs to every entry point: a million, or for SECONDS=60 (INPUTS=, SEED=)
	cd python && ../$(BIN)/python -m tests.fuzz --processes $(WORKERS) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SEED),--seed $(SEED)) $(OF_SHARD)

mutate: $(READY) ## Plant faults into the core, one at a time: the tests must catch each of them (ONLY=part of a name)
	cd python && ../$(BIN)/python -m tests.mutation --processes $(WORKERS) $(if $(ONLY),--only "$(ONLY)") $(OF_SHARD)

integration: shims ## Run the tests on servers in containers (as root on Debian, it installs an engine and images)
	tools/integration $(BIN)/python $(PYTEST) integration_tests $(OF_SHARD) -o faulthandler_timeout=900

conformance: shims ## Run Spark's own tests of its Kafka connector on oncelog's (WHAT=older: those of older releases; ONLY=part of a name)
	$(BIN)/python tools/conformance $(if $(filter older,$(WHAT)),--spark older) $(if $(ONLY),--only "$(ONLY)") $(OF_SHARD)

soak: shims ## Copy records on three stacks while every part is killed and paused (MINUTES=10 STACKS=sqlite,zookeeper,kafka SEED=)
	$(BIN)/python -m integration_tests.soak --minutes $(or $(MINUTES),10) $(if $(STACKS),--stacks $(STACKS)) $(if $(SEED),--seed $(SEED))

nightly: test versions once-more integration conformance crash coverage sim fuzz mutate soak ## Run everything, for hours (SHARD=2/60: one shard of once-more, conformance, crash, sim, fuzz and mutate)
	$(MAKE) conformance WHAT=older
	$(MAKE) coverage WHAT=kafka
	$(MAKE) sim EXHAUSTIVE=pairs
	$(MAKE) wheel CHECK=1

quickstart: ## Set up, write a log, copy it with Spark exactly once and read it back (a minute or two; then seconds)
	@$(MAKE) --silent --no-print-directory --jobs=2 $(RUNNABLE) $(SHIMS) # while pip downloads, Maven compiles
	$(BIN)/python examples/quick_start.py

run: $(READY) ## Run the main example: real flights, kill -9 at every stage, and an audit
	$(BIN)/python examples/demonstrations/flights_exactly_once.py

DEMO.bucket := examples/demonstrations/flights_in_a_bucket.py
DEMO.cluster := examples/demonstrations/flights_on_a_cluster.py
DEMO.kafka = examples/demonstrations/kafka_exactly_once.py $(if $(BY),--by $(BY)) $(if $(TRANSACTIONS),--transactions $(TRANSACTIONS))
DEMO.everywhere := examples/demonstrations/flights_everywhere.py
DEMO.operations := examples/demonstrations/failures_and_alerts.py
DEMO.notebook := tools/notebook.py
demo: $(if $(filter bucket cluster,$(call what,demo)),$(READY),shims) ## Run another example: WHAT=bucket, cluster, kafka (BY=, TRANSACTIONS=), everywhere, operations or notebook
	$(BIN)/python $(DEMO.$(call what,demo))

bench: $(if $(filter growth,$(WHAT)),$(READY),shims) ## Run the benchmarks and write docs/benchmarks.md (WHAT=kafka, targets, growth or operations; QUICK=1: less data, no page)
	$(BIN)/python -m benchmarks$(addprefix .,$(filter-out all,$(WHAT))) $(if $(QUICK),--quick)
	$(if $(and $(filter growth,$(WHAT)),$(if $(QUICK),,1)),$(BIN)/python docs/generate.py)

docs: export NO_MKDOCS_2_WARNING = 1
ifdef VERSION
docs: export DOCS_VERSIONS = mike
endif
# `mike` commits the site next to those of other versions. The picture needs Chromium.
docs: $(READY) $(if $(filter picture,$(WHAT)),build/flights.html) ## Build the site in build/site, with its generated parts (VERSION=0.1: commit it to gh-pages; WHAT=picture: that of the README)
ifeq ($(WHAT),picture)
	cd python && ../$(BIN)/python -m tests.support.docs.picture
else
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build
	@echo "To read it, with its search: python3 -m http.server --directory build/site"
ifdef VERSION
	PATH="$(CURDIR)/$(BIN):$$PATH" mike deploy --update-aliases "$(VERSION)" latest
	$(BIN)/mike set-default latest
endif
endif

build/flights.html:
	$(MAKE) run

wheel: shims ## Build the wheel and the sdist in dist/ (CHECK=1: check that they are ready for release, on each of PYTHONS=)
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(if $(CHECK),$(BIN)/python tools/release_check.py $(PYTHONS))

clean: ## Remove everything that the other targets made, .venv included
	rm -rf .venv* build dist .coverage .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log
	rm -rf jvm_shims/target jvm_shims/*/target python/oncelog/spark/jars connectors/kafka/oncelog_kafka/jars
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

"""Generates the parts of the docs that the code knows: the option tables, the drawings, and whole examples.

python docs/generate.py            writes them
python docs/generate.py --check    fails if they are not up to date
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import curves
from drawings import DRAWINGS
from oncelog.metrics import alerts, catalogue
from oncelog.spark.kit.options import SINKS, SOURCE, render_markdown_table
from oncelog.spark.observing import QUERIES_MOST
from oncelog.spark.once_sink import OPTIONS as ONCE_OPTIONS
from oncelog.spark.option_table import OPTIONS
from oncelog_files import options as files_sink
from oncelog_kafka.operations import metrics as kafka_metrics
from oncelog_kafka.options import sink_options as kafka_sink
from oncelog_postgres import options as postgres_sink
from oncelog_search import options as search_sink
from oncelog_tables import options as table_sinks

DOCS = Path(__file__).parent
EXTENDING = DOCS.parent / "examples" / "extending"
STORE_TEST = DOCS.parent / "python" / "tests" / "unit" / "examples" / "test_json_file_store.py"
CONFORMANCE_PAGE = DOCS / "concepts" / "conformance.md"
DESIGN_PAGE = DOCS / "design" / "README.md"
STORE_PAGE = DOCS / "guides" / "extending-store.md"
TARGET_PAGE = DOCS / "guides" / "extending-target.md"
METRICS_PAGE = DOCS / "reference" / "metrics.md"
OPTIONS_PAGE = DOCS / "reference" / "options.md"
CONFORMANCE = DOCS.parent / "jvm_shims/conformance/expected.toml"
KAFKA_SOURCE_OPTIONS = DOCS.parent / "jvm_shims/kafka/src/main/resources/io/oncelog/kafka/source/options.json"


def options_page() -> str:
    """The page of all options."""
    return f"""# Options

Upper and lower case in names do not matter. An unknown name is an error that suggests the nearest one. `make docs`
generates this page from the code.

## Source
`spark.readStream.format("oncelog")` and `spark.read.format("oncelog")`. A session with oncelog's jar
(`oncelog.spark.configure`) reads local logs in the JVM. The setting `spark.oncelog.jvmReader=false` makes it read in
Python.

{render_markdown_table(OPTIONS, SOURCE)}
A DataFrame of a batch read is planned once. What is appended afterwards is visible in a new `load()`, but not in the
same DataFrame, its views, or the static side of a stream's join. The DataFrame keeps its plan, and the rows of the plan
can be read for an hour after retention removed them.

## Sinks
`foreachBatch(oncelog.spark.sink(...))`, `writeStream.format("oncelog")` and `df.write.format("oncelog")`. A session
with oncelog's jar writes local logs in the JVM. The setting `spark.oncelog.jvmWriter=false` makes it write in Python.

{render_markdown_table(OPTIONS, SINKS)}
- **Columns.** `foreachBatch` ignores columns that the sink does not know. With `write` and `writeStream`, Spark first
  converts all columns to Arrow. That fails if two columns have the same name, as after a join, or if Arrow has no
  counterpart for a column's type. Select the sink's columns first.
- **Output modes.** `writeStream` accepts `append` and `complete`; `complete` appends the whole result with each batch.
  For `update`, use `foreachBatch`.

## Kafka source
`spark.readStream.format("oncelog-kafka")` and `spark.read.format("oncelog-kafka")` take the options of Spark's `kafka`
source, and `groupId`. Options that begin with `kafka.` are settings of Kafka's consumer. `kafka.bootstrap.servers` is
required, and `kafka.isolation.level` is `read_committed` by default.

{kafka_source_table()}
## Kafka sink
`writeStream.format("oncelog-kafka")`, `foreachBatch(oncelog_kafka.sink(...))` and `df.write.format("oncelog-kafka")`.
Other options that begin with `kafka.` are settings of Kafka's producer. Options that begin with `admin.` are settings
of the driver's client ([logins](../guides/kafka.md#logins-and-certificates)).

{kafka_sink.render_markdown_table()}
## PostgreSQL sink
`foreachBatch(oncelog_postgres.sink(...))`: see [PostgreSQL](../guides/postgres.md).

{postgres_sink.render_markdown_table()}
## Files sink
`foreachBatch(oncelog_files.sink(...))`: see [files](../guides/files.md).

{files_sink.render_markdown_table()}
## Delta sink
`foreachBatch(oncelog_tables.delta(...))`: see [tables of a lake](../guides/tables.md). Options that begin with
`storage.` are delta-rs's for the storage of the table, such as `storage.aws_region`; their values are never shown.

{table_sinks.render_delta_table()}
## Iceberg sink
`foreachBatch(oncelog_tables.iceberg(...))`: see [tables of a lake](../guides/tables.md). Options that begin with
`catalog.` are properties of the catalog in pyiceberg's terms, such as `catalog.type` and `catalog.uri`; their values
are never shown.

{table_sinks.render_iceberg_table()}
## Search sink
`foreachBatch(oncelog_search.sink(...))`: see [OpenSearch and Elasticsearch](../guides/search.md).

{search_sink.render_markdown_table()}
## A sink of your own functions
`foreachBatch(oncelog.spark.once(write, was_written, ...))`: see [a store of your
own](../guides/together.md#a-store-of-your-own).

{render_markdown_table(ONCE_OPTIONS)}"""


def metrics_page() -> str:
    """The page of all metrics."""
    return f"""# Metrics

`oncelog exporter`, `oncelog kafka exporter` and `oncelog.spark.observe` serve these metrics to Prometheus
([how to start them](../operations/metrics.md)). `make docs` generates this page from the code. The last column names
the alert that uses the metric.

## Exporters
Both exporters serve these metrics about themselves.

{catalogue.render_markdown_table(catalogue.EXPORTER)}
## Logs
`oncelog exporter` with a log. Ages are measured by the exporter's clock.

{catalogue.render_markdown_table(catalogue.LOG)}
## Ledgers
Both exporters. `target` is the kind of the sink, such as `log`, `kafka` or `postgres`; `prefix` is its
`transactionalIdPrefix` (or the query's id), with `.<sinkName>` if it has one.

{catalogue.render_markdown_table(catalogue.LEDGER)}
## Kafka
`oncelog kafka exporter`.

{catalogue.render_markdown_table(kafka_metrics.KAFKA)}
## Queries
`oncelog.spark.observe`, in the driver. `query` is the query's name, or its id; `source` is the number of the source in
the query. The first {QUERIES_MOST} queries of a driver have their own series, all others share `query="(others)"`.
Only sinks of `foreachBatch` have metrics of their own. A sink used through `format` shows only in the metrics of its
query.

{catalogue.render_markdown_table(catalogue.QUERY)}
## Stores
`oncelog.spark.observe` serves those of the driver, and `oncelog.metrics.stores.observe` those of any process. Requests
of tasks are not included.

{catalogue.render_markdown_table(catalogue.STORE)}
## Alerts
`oncelog exporter --rules` prints them as a rule file for Prometheus. `oncelog kafka exporter --rules` adds those for
Kafka. Adjust the thresholds to your needs. Each alert links to its page of the runbook, here and in its annotation
`runbook_url`.

{alerts.render_markdown_table((*alerts.ALERTS, *kafka_metrics.ALERTS))}"""


def kafka_source_table() -> str:
    """The options of the Kafka source, by the table that its Java code reads them from too."""
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for option in json.loads(KAFKA_SOURCE_OPTIONS.read_text()).values():
        default = f"`{option['default']}`" if "default" in option else option.get("required", "-")
        if "batchDefault" in option:
            default += f"; `{option['batchDefault']}` for a batch"
        rows.append(f"| `{option['name']}` | {default} | {option['meaning']} |")
    return "\n".join(rows) + "\n"


def with_generated(page: str, name: str, text: str) -> str:
    """`page` with `text` between the marks of the generated part `name`."""
    marks = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- /generated -->)", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}{text.rstrip()}\n{found[2]}", page)


def code_of(program: Path) -> str:
    """A program without its docstring, as a block of a page."""
    _, _, code = program.read_text().split('"""', 2)
    return f"```python\n{code.strip()}\n```"


def store_page() -> str:
    """The page of how to write a metadata store, with its example and the example's test."""
    page = with_generated(STORE_PAGE.read_text(), "store", code_of(EXTENDING / "json_file_store.py"))
    return with_generated(page, "store test", code_of(STORE_TEST))


def target_page() -> str:
    """The page of how to write a sink, with its example and the example's test."""
    page = with_generated(TARGET_PAGE.read_text(), "target", code_of(EXTENDING / "json_folder_target.py"))
    return with_generated(page, "target test", code_of(EXTENDING / "test_json_folder_target.py"))


def conformance_page() -> str:
    """The page of what Spark's own tests say of the Kafka connector."""
    expected = tomllib.loads(CONFORMANCE.read_text())
    suites = expected["suites"]
    counts = ["| suite | tests | pass | fail | not run |", "|---|---|---|---|---|"]
    for name, tests in suites.items():
        passes, fails, not_run = (len(tests.get(outcome, ())) for outcome in ("passes", "fails", "not_run"))
        counts.append(f"| {name} | {passes + fails + not_run} | {passes} | {fails} | {not_run} |")
    by_reason: dict[str, list[str]] = {text: [] for text in expected["reasons"].values()}
    for name, tests in suites.items():
        for test, reason in (tests.get("fails", {}) | tests.get("not_run", {})).items():
            key, says = reason if isinstance(reason, list) else (reason, "")
            by_reason[expected["reasons"][key]].append(f"{name}: {test}" + (f" (`{says}`)" if says else ""))
    absent = {
        f"Not in {release}:": [f"{name}: {test}" for name, tests in suites.items() for test in tests]
        for release, suites in expected["older"].items()
    }
    left_out: dict[str, list[str]] = {}
    for suite, reason in expected["left_out"].items():
        left_out.setdefault(reason, []).append(suite)
    page = CONFORMANCE_PAGE.read_text()
    page = with_generated(page, "suites", "\n".join(counts))
    page = with_generated(page, "differences", grouped(by_reason))
    page = with_generated(page, "older", grouped(absent))
    return with_generated(page, "left out", grouped(left_out))


def design_page() -> str:
    """The list of the design notes, made from the first lines of each."""
    rows = ["| note | date | status |", "|---|---|---|"]
    for note in sorted(DESIGN_PAGE.parent.glob("[0-9]*.md")):
        head = re.match(r"# (.+)\n\nDate: (\d{4}-\d\d-\d\d)\. Status: (.+)\.\n", note.read_text())
        if head is None:
            raise ValueError(f"{note.name} does not begin with '# title', then 'Date: 2026-01-31. Status: accepted.'")
        rows.append(f"| [{head[1]}]({note.name}) | {head[2]} | {head[3]} |")
    return with_generated(DESIGN_PAGE.read_text(), "notes", "\n".join(rows))


def grouped(groups: Mapping[str, Sequence[str]]) -> str:
    """A list below each heading."""
    return "\n\n".join(
        f"**{heading}**\n\n" + "\n".join(f"- {item}" for item in items) for heading, items in groups.items()
    )


def pages() -> dict[Path, str]:
    """Every page with generated parts, as it should be."""
    return {
        **{DOCS / "images" / name: draw() for name, draw in DRAWINGS.items()},
        **{DOCS / "images" / name: drawn for name, drawn in curves.drawings(curves.PAGE.read_text()).items()},
        CONFORMANCE_PAGE: conformance_page(),
        DESIGN_PAGE: design_page(),
        STORE_PAGE: store_page(),
        TARGET_PAGE: target_page(),
        OPTIONS_PAGE: options_page(),
        METRICS_PAGE: metrics_page(),
    }


def main() -> int:
    """Write the pages, or compare them."""
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        print("\n".join(f"{path.name} is not up to date: run `make docs`" for path in stale))
        return 1 if stale else 0
    for path, text in pages().items():
        path.write_text(text)
    print(f"wrote {', '.join(path.name for path in pages())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

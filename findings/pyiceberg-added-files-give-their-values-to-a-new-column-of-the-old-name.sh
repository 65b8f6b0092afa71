#!/usr/bin/env bash
# pyiceberg: a column that takes the former name of another one also takes its values, in files that add_files brought in.
#
# One would guess: Iceberg's columns have ids, so that a rename moves nothing. add_files sets a name mapping, which keeps
#   the former names of a column, and hence its values stay with the column.
# What happens: after city is renamed to town, the mapping has both names for town. When a new column is called city, that
#   name is taken from town in the mapping and given to the new column. From then on the values of added files, which have
#   no field ids, are read as the new column's, and town is null. Dropping the new column does not bring them back. Files
#   that pyiceberg's append wrote have field ids, and keep their values.
# Whom it bites: a table with files of Spark's or of another writer that names no field ids, when its columns evolve.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyiceberg[sql-sqlite,pyarrow]==0.12.0" "pyarrow==21.0.0"

cat >"$folder/evolve.py" <<'PYTHON'
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
catalog.create_namespace("shop")
rows = pa.table({"id": pa.array([1], pa.int64()), "city": ["Berlin"]})

added = catalog.create_table("shop.added", schema=rows.schema)
pq.write_table(rows, folder / "rows.parquet")
added.add_files([str(folder / "rows.parquet")])
appended = catalog.create_table("shop.appended", schema=rows.schema)
appended.append(rows)

STEPS = {
    "city renamed to town": lambda schema: schema.rename_column("city", "town"),
    "a new column city": lambda schema: schema.add_column("city", StringType()),
    "the new column dropped": lambda schema: schema.delete_column("city"),
}
found = {}
print(f"pyiceberg {pyiceberg.__version__}")
for step, change in STEPS.items():
    for table in (added, appended):
        with table.update_schema() as schema:
            change(schema)
    found[step] = [table.scan().to_arrow().to_pylist()[0]["town"] for table in (added, appended)]
    print(f"{step}: town is {found[step][0]} in an added file, {found[step][1]} in an appended one")

expected = [["Berlin", "Berlin"], [None, "Berlin"], [None, "Berlin"]]
sys.exit(0 if list(found.values()) == expected else "the behaviour has changed")
PYTHON
"$folder/venv/bin/python" "$folder/evolve.py" "$folder"

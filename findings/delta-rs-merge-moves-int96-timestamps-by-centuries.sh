#!/usr/bin/env bash
# delta-rs: a merge changes timestamps of rows that it only copies, if their file stores them as INT96.
#
# One would guess: a merge rewrites a file, but copies the rows that no source row matches as they are.
# What happens: INT96, which Spark still writes by default (spark.sql.parquet.outputTimestampType), is read as nanoseconds in
#   64 bits. Those reach from 1677 to 2262 only, and a value outside wraps around: 9999-12-31, the usual "valid for ever",
#   is written back as a day in 1816. There is no error. A table that was converted from Parquet, or filled by Spark, has
#   such files.
# Whom it bites: whoever merges into a table of slowly changing dimensions with delta-rs after Spark has written to it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "deltalake==1.6.6" "pyarrow==21.0.0"

cat >"$folder/merge.py" <<'PYTHON'
import datetime as dt
import sys
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[1], "customers")
folder.mkdir()
valid_until = pa.array([dt.datetime(9999, 12, 31), dt.datetime(2024, 1, 1)], pa.timestamp("us"))
rows = pa.table({"id": pa.array([1, 2], pa.int64()), "valid_until": valid_until})
pq.write_table(rows, folder / "as-spark-writes-it.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
deltalake.convert_to_deltalake(str(folder))

change = pa.table({"id": pa.array([2], pa.int64()), "valid_until": pa.array([dt.datetime(2025, 1, 1)], pa.timestamp("us"))})
merge = deltalake.DeltaTable(str(folder)).merge(change, "t.id = s.id", source_alias="s", target_alias="t")
done = merge.when_matched_update_all().execute()

(file,) = deltalake.DeltaTable(str(folder)).file_uris()
after = {row["id"]: row["valid_until"].year for row in pq.read_table(file).to_pylist()}
print(f"deltalake {deltalake.__version__}: updated {done['num_target_rows_updated']}, copied {done['num_target_rows_copied']}")
print(f"customer 1, who is in no source row: valid until 9999 before, until {after[1]} after the merge")
sys.exit(0 if after == {1: 1816, 2: 2025} else "the behaviour has changed")
PYTHON
"$folder/venv/bin/python" "$folder/merge.py" "$folder"

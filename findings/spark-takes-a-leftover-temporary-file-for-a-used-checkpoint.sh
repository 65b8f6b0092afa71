#!/usr/bin/env bash
# Spark Structured Streaming: a temporary file in offsets/ makes it refuse a checkpoint that has run no batch.
#
# One would guess: Spark writes a log file under a temporary name and renames it, so that a crash in between does no harm:
#   the next start ignores the temporary file and runs batch 0.
# What happens: a start at batch 0 demands that offsets/ is empty. If the disk was full, or the driver was killed, while the
#   first offsets were written, the temporary file stays, and every later start ends in
#   STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY, also for a query without any state. From batch 1 on such files do no harm.
# Whom it bites: whoever starts a query on a disk that is full for a moment. Deleting the temporary file is enough.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0"

cat >"$folder/job.py" <<'PYTHON'
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

folder = Path(sys.argv[1])
(folder / "in").mkdir()
(folder / "in" / "1.txt").write_text("a\n")
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def run(checkpoint):
    """Run the query once; returns how it ends."""
    rows = spark.readStream.text(str(folder / "in"))
    writer = rows.writeStream.foreachBatch(lambda df, number: df.count()).option("checkpointLocation", str(checkpoint))
    try:
        writer.trigger(availableNow=True).start().awaitTermination()
    except Exception as problem:
        return "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY" if "LOCATION_NOT_EMPTY" in str(problem) else str(problem)
    return "runs"


# What a full disk or a kill leaves: an empty temporary file, under the name that Spark gives to it.
left = "offsets/.0.5c1f3d52-0000-4000-8000-000000000001.tmp"
(folder / "new" / "offsets").mkdir(parents=True)
(folder / "new" / left).touch()
first = run(folder / "new")
again = run(folder / "new")
(folder / "new" / left).unlink()
without = run(folder / "new")

(folder / "new" / left.replace(".0.", ".1.")).touch()
(folder / "in" / "2.txt").write_text("b\n")
later = run(folder / "new")

print(f"pyspark {pyspark.__version__}")
print(f"a new checkpoint with a temporary file in offsets/: {first}; started again: {again}")
print(f"the same without that file: {without}; with such a file of batch 1, before batch 1: {later}")
expected = ["STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"] * 2 + ["runs"] * 2
sys.exit(0 if [first, again, without, later] == expected else "the behaviour has changed")
PYTHON
"$folder/venv/bin/python" "$folder/job.py" "$folder" 2>"$folder/log" || { tail -20 "$folder/log"; exit 1; }

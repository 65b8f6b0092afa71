#!/usr/bin/env bash
# Spark 4.1: a job loses and duplicates rows if an executor is lost and a map task then gives other rows than at first.
#
# One would guess: a job writes the rows of one run of its plan. If a part must run again and gives other rows, Spark
#   notices it, and starts over or fails.
# What happens: tasks of the last stage that had finished keep what they wrote, and the others get rows of the second run. The
#   job succeeds, and some rows are missing and others duplicated. Since 4.1 Spark can notice it by checksums of the shuffle
#   (spark.sql.shuffle.orderIndependentChecksum.enabled and ...enableFullRetryOnMismatch) and fail the job, but 4.1 has them
#   off. 4.2 has them on.
# Whom it bites: whoever shuffles by something that a rerun changes: a random number, the time, rows in the order of arrival.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/job.py" <<'PYTHON'
import os
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession

folder = Path(sys.argv[1])
CHECKSUMS = "spark.sql.shuffle.orderIndependentChecksum"


def draw(batches):
    """Add the task of each row, drawn by lot."""
    for batch in batches:
        lots = pa.array([lot % 4 for lot in os.urandom(batch.num_rows)], pa.int32())
        yield pa.RecordBatch.from_arrays([batch.column(0), lots], ["id", "task"])


def kill_executor_once(batches):
    """Task 2 starts when its executor, of one core, has finished another task; it kills the executor."""
    for batch in batches:
        mark = folder / "killed"
        if TaskContext.get().partitionId() == 2 and batch.num_rows and not mark.exists():
            mark.touch()
            process = os.getppid()
            while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{process}/cmdline").read_bytes():
                process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(process, signal.SIGKILL)
            time.sleep(60)
        yield batch


def run(spark):
    """Write 100 rows; returns how many are missing, and how many are duplicated."""
    rows = spark.range(0, 100, 1, 2).mapInArrow(draw, "id long, task int").repartition(4, "task").drop("task")
    try:
        rows.mapInArrow(kill_executor_once, "id long").write.parquet(str(folder / "out"))
    except Exception as problem:
        return "the job fails" if "indeterminate output" in str(problem) else str(problem)
    (folder / "killed").unlink()
    found = Counter(row.id for row in spark.read.parquet(str(folder / "out")).collect())
    return f"{100 - len(found)} rows missing, {sum(count > 1 for count in found.values())} duplicated"


builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
builder = builder.config("spark.cores.max", "2").config("spark.scheduler.minRegisteredResourcesRatio", "1")
for setting in sys.argv[2:]:
    builder = builder.config(f"{CHECKSUMS}.{setting}", "true")
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
print(f"pyspark {pyspark.__version__} {'with checksums on' if sys.argv[2:] else 'as it is'}: {run(spark)}")
PYTHON

export SPARK_LOCAL_IP=127.0.0.1
run() { # VERSION SETTING...
  rm -rf "$folder/work" && mkdir "$folder/work"
  (cd "$folder/work" && PYSPARK_PYTHON="$folder/$1/bin/python" SPARK_HOME=$("$folder/$1/bin/python" -c 'import pyspark; print(*pyspark.__path__)') \
    "$folder/$1/bin/python" "$folder/job.py" "$folder/work" "${@:2}") 2>"$folder/log" || { tail -20 "$folder/log"; exit 1; }
}
for version in 4.1.4 4.2.1; do
  python3 -m venv "$folder/$version"
  "$folder/$version/bin/pip" install --quiet "pyspark==$version" "pyarrow==21.0.0" "pandas==2.3.3"
done
found=$(run 4.1.4; run 4.1.4 enabled enableFullRetryOnMismatch; run 4.2.1)
echo "$found"
[[ "$found" =~ "4.1.4 as it is: "[1-9][0-9]*" rows missing, "[1-9] && "$found" == *"4.1.4 with checksums on: the job fails"*"4.2.1 as it is: the job fails"* ]] ||
  { echo "the behaviour has changed"; exit 1; }

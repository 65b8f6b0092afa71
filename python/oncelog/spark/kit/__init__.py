"""What all sinks share on Spark, whatever they write to.

These are the options, what Spark knows of a batch, and the function for ``foreachBatch``. How a batch is written once
is in `oncelog/batches/`, which does not know Spark.
"""

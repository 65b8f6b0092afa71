package io.oncelog.spark.blocks;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/** What the columns of records are written to; null for a column that is not wanted, and so is not decompressed. */
public record RecordVectors(
    WritableColumnVector key,
    WritableColumnVector value,
    WritableColumnVector timestamp,
    WritableColumnVector headers) {}

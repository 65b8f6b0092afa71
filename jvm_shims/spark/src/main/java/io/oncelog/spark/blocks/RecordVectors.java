package io.oncelog.spark.blocks;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/** What the columns of records are written to; null for one that is not wanted, and is not decompressed then. */
public record RecordVectors(
    WritableColumnVector key,
    WritableColumnVector value,
    WritableColumnVector timestamp,
    WritableColumnVector headers) {}

package io.oncelog.spark.blocks;

import com.fasterxml.jackson.annotation.JsonFormat;

/**
 * Where a record batch is, and what the index says about it. Python passes these values in the order of its own Block
 * (types.py); ReadTaskTest checks the order.
 *
 * @param file name under the log's folder
 * @param position byte at which the block begins
 * @param length bytes of the block, including the sync marker
 * @param crc32 of those bytes
 * @param count number of records
 */
@JsonFormat(shape = JsonFormat.Shape.ARRAY)
public record Block(
    String file, long position, long length, long crc32, long count, long minTimestampMs, long maxTimestampMs) {}

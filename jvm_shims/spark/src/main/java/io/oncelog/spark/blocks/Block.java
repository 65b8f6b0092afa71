package io.oncelog.spark.blocks;

import com.fasterxml.jackson.annotation.JsonFormat;

/**
 * Where a record batch is, and what the index says of it. Python passes these values in the order of its own Block
 * (types.py); ReadTaskTest pins it.
 *
 * @param file name below the log's folder
 * @param position byte at which the block begins
 * @param length bytes of the block, sync marker included
 * @param crc32 of those bytes
 * @param count records
 */
@JsonFormat(shape = JsonFormat.Shape.ARRAY)
public record Block(
    String file, long position, long length, long crc32, long count, long minTimestampMs, long maxTimestampMs) {}

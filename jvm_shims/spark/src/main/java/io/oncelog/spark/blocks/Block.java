package io.oncelog.spark.blocks;

/**
 * Where a record batch is, and what the index says of it.
 *
 * @param file name below the log's folder
 * @param position byte at which the block begins
 * @param length bytes of the block, sync marker included
 * @param crc32 of those bytes
 * @param count records
 */
public record Block(
    String file, long position, int length, long crc32, int count, long minTimestampMs, long maxTimestampMs) {}

/**
 * Reads and checks blocks of data files (docs/reference/data-format.md), and decodes them into Spark's columns. It
 * knows nothing about topics and offsets.
 *
 * <p>{@link io.oncelog.spark.blocks.BlockReader} is the entry point. The checks and their order are those of Python's
 * segment.py, codec.py and columns.py.
 */
package io.oncelog.spark.blocks;

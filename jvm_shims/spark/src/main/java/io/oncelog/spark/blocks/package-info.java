/**
 * Blocks of data files, as docs/reference/data-format.md describes them: read, checked, and laid out as Spark's
 * columns. Knows nothing of topics and offsets.
 *
 * <p>{@link io.oncelog.spark.blocks.BlockReader} is the door; the checks and their order are those of Python's
 * segment.py, codec.py and columns.py.
 */
package io.oncelog.spark.blocks;

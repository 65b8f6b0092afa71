/**
 * The data plane of writes: tasks of a sink that write their rows into blocks of data files in Spark's own processes.
 *
 * <p>Nothing is decided here. Python says which files a task may make and which partitions there are ({@link
 * io.oncelog.spark.sink.WriteTask}), and gets back which blocks it wrote; a block counts only once Python's driver has
 * committed it. What a task does, its limits and its crash points are those of Python's writing.py, segment.py and
 * files.py; the layout of a block is described in docs/reference/data-format.md.
 */
package io.oncelog.spark.sink;

/**
 * The data plane of reads: {@code format("oncelog")} with tasks that run in Spark's own processes. That of writes is
 * {@link io.oncelog.spark.sink}.
 *
 * <p>Nothing is decided here. The data source is Spark's wrapper of the Python source ({@link
 * io.oncelog.spark.OncelogProvider}), so Python still handles offsets, plans, options and commits. Only the tasks
 * are different: Python plans which rows of which blocks of which files a task of a read reads ({@link
 * io.oncelog.spark.ReadTask}), and {@link io.oncelog.spark.TaskReader} reads them as columns, instead of Python sending
 * them through a socket. The package {@link io.oncelog.spark.blocks} reads the blocks.
 *
 * <p>Errors have the names, texts and fields of Python's errors (errors.py), so that one search finds both.
 */
package io.oncelog.spark;

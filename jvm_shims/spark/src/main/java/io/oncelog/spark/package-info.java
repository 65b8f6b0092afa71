/**
 * The data plane of reads: {@code format("oncelog")} with tasks that run in Spark's own processes.
 *
 * <p>No policy lives here. The data source is Spark's wrapper of the Python one ({@link
 * io.oncelog.spark.OncelogProvider}), and whatever is asked of it, offsets, plans, options, commits and writes, goes to
 * Python as ever. Only the tasks of a read are other ones: Python plans which rows of which blocks of which files a
 * task shows ({@link io.oncelog.spark.ReadTask}), and {@link io.oncelog.spark.TaskReader} shows them as columns, where
 * Python would send them through a socket. The package below reads the blocks.
 *
 * <p>Errors have the names, the words and the fields of Python's (errors.py), so that one search finds both.
 */
package io.oncelog.spark;

package io.oncelog.spark.sink;

import java.io.Serializable;

/**
 * A write of {@code format("oncelog")} that Python planned; writer.py writes it as JSON.
 *
 * @param hold keeps collection from deleting the tasks' files
 */
record PlannedWrite(WriteTask task, String hold) implements Serializable {}

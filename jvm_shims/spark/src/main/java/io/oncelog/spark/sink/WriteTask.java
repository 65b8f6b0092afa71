package io.oncelog.spark.sink;

import java.io.Serializable;
import java.util.Map;

/**
 * What the tasks of one write need to know. Python writes it as JSON (jvm_tasks.py), with the names of the components.
 *
 * @param folder of the log
 * @param prefix of the names of new files
 * @param codec how the blocks are compressed
 * @param level of compression with zstd
 * @param topic of all rows; null if each row names its own
 * @param partitions number of partitions of each topic that may be written
 * @param header of a data file, without the sync marker at its end
 * @param limits see limits.py
 */
record WriteTask(
    String folder,
    String prefix,
    String codec,
    int level,
    String topic,
    Map<String, Integer> partitions,
    byte[] header,
    Limits limits)
    implements Serializable {
  /**
   * Sizes in bytes, and the latest time that a record may have.
   *
   * @param block uncompressed size at which a block ends
   * @param buffer size of all records that wait for their blocks to fill
   * @param file size at which a new file begins
   * @param record key, value and headers of one record
   */
  record Limits(long block, long buffer, long file, long record, long timestampMs) implements Serializable {}
}

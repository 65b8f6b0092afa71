/**
 * The source {@code format("oncelog-kafka")}: Spark's Kafka source by its options and columns, read in columns and
 * read_committed.
 *
 * <p>The driver plans: {@link io.oncelog.kafka.source.Cluster} asks the brokers, {@link
 * io.oncelog.kafka.source.KafkaMicroBatchStream} and {@link io.oncelog.kafka.source.KafkaBatch} make ranges of offsets
 * of the answers. Tasks read: {@link io.oncelog.kafka.source.RangeReader} polls one range, {@link
 * io.oncelog.kafka.source.RecordColumns} shows what was polled as columns without copying it.
 */
package io.oncelog.kafka.source;

/**
 * The source {@code format("oncelog-kafka")}: Spark's Kafka source by its options and columns, read in columns and
 * read_committed.
 *
 * <p>Spark calls it, by {@link io.oncelog.kafka.KafkaProvider}; nothing of it is in Python. It owns what a query
 * reads: where it starts and ends ({@link io.oncelog.kafka.source.Positions}), how much goes into one micro-batch
 * ({@link io.oncelog.kafka.source.Admission}), which topic an offset is of ({@link
 * io.oncelog.kafka.source.TopicWatch}), what counts as loss of data and what happens then, how a batch is cut into
 * tasks ({@link io.oncelog.kafka.source.OffsetRange}), and the form of its offsets and files in a checkpoint.
 *
 * <p>It must never write to a topic, take part in a transaction, skip a record unless failOnDataLoss is false, or keep
 * in memory only what a batch needs that Spark plans again after a crash. To a group it commits for lag tools alone: a
 * query goes by its checkpoint.
 *
 * <p>The driver plans: {@link io.oncelog.kafka.source.Cluster} asks the brokers, {@link
 * io.oncelog.kafka.source.KafkaMicroBatchStream} and {@link io.oncelog.kafka.source.KafkaBatch} make ranges of offsets
 * of the answers. Tasks read: {@link io.oncelog.kafka.source.RangeReader} polls one range, {@link
 * io.oncelog.kafka.source.RecordColumns} shows what was polled as columns without copying it.
 */
package io.oncelog.kafka.source;

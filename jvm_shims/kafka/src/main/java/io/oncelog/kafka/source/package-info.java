/**
 * The source {@code format("oncelog-kafka")}. It has the options and columns of Spark's Kafka source, but reads in
 * columns, and read_committed by default.
 *
 * <p>Spark calls it through {@link io.oncelog.kafka.KafkaProvider}; no part of it is in Python. It owns what a query
 * reads: where it starts and ends ({@link io.oncelog.kafka.source.Positions}), how much goes into one micro-batch
 * ({@link io.oncelog.kafka.source.Admission}), which topic an offset belongs to ({@link
 * io.oncelog.kafka.source.TopicWatch}), what counts as data loss and what happens then, how a batch is divided into
 * tasks ({@link io.oncelog.kafka.source.OffsetRange}), and the format of its offsets and files in a checkpoint.
 *
 * <p>It must never write to a topic, take part in a transaction, or skip a record unless failOnDataLoss is false. It
 * must never keep in memory only what it needs to plan a batch again after a crash. It commits to a group for lag tools
 * only: a query uses its checkpoint.
 *
 * <p>The driver plans: {@link io.oncelog.kafka.source.Cluster} asks the brokers, {@link
 * io.oncelog.kafka.source.KafkaMicroBatchStream} and {@link io.oncelog.kafka.source.KafkaBatch} turn the answers into
 * ranges of offsets. Tasks read: {@link io.oncelog.kafka.source.RangeReader} polls one range, and {@link
 * io.oncelog.kafka.source.RecordColumns} shows the polled records as columns without copying them.
 */
package io.oncelog.kafka.source;

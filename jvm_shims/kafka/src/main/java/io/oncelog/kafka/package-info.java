/**
 * The Java half of the Kafka connector, in the processes of Spark's driver and executors.
 *
 * <p>The sink ({@link io.oncelog.kafka.sink}) decides nothing: what to commit or abort is decided in Python, by the
 * ledger. Where the driver's own client must be Java's, {@link io.oncelog.kafka.control} sends its requests.
 * The source ({@link io.oncelog.kafka.source}) is all here, and decides what a batch reads.
 */
package io.oncelog.kafka;

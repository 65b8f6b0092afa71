/**
 * The Java half of the Kafka connector, which runs in Spark's driver and executors.
 *
 * <p>The sink ({@link io.oncelog.kafka.sink}) decides nothing: Python decides with the ledger what to commit or abort.
 * If the driver's own client must be Java's, {@link io.oncelog.kafka.control} sends its requests. The source ({@link
 * io.oncelog.kafka.source}) is entirely in Java, and decides what a batch reads.
 */
package io.oncelog.kafka;

/**
 * The data plane of the Kafka connector. No policy lives here: what to commit or abort is decided in Python, by the
 * ledger; this code moves records between Spark and brokers.
 */
package io.oncelog.kafka;

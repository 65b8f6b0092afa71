/**
 * The data plane of the exactly-once sink: tasks prepare transactions and report what they prepared.
 *
 * <p>Nothing in this package commits or aborts a transaction. The driver's Python side decides, in one write to its
 * ledger, which of the prepared transactions count, and ends them.
 */
package io.oncelog.kafka.sink;

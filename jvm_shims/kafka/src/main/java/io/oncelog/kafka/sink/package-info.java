/**
 * The data plane of the exactly-once sink: tasks prepare transactions and say what they prepared.
 *
 * <p>No policy is here. Nothing in this package commits or aborts a transaction: the driver's Python side decides which
 * of the prepared ones count, in one write of its ledger, and ends them.
 */
package io.oncelog.kafka.sink;

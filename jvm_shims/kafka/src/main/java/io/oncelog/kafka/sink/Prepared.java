package io.oncelog.kafka.sink;

/**
 * One prepared participant: an open transaction that holds all rows of one task, and nothing of it can fail any more
 * but by time. The names of the components are those of the JSON that the driver reads.
 *
 * @param transactionalId of the participant
 * @param partition of the batch, as Spark numbers it
 * @param producerId names the transaction, with the epoch
 * @param epoch names the transaction, with the producer id
 * @param transactionVersion 2 if the broker bumps the epoch with every transaction, else 1
 * @param rows of the participant
 * @param contentHash sum of the rows' hashes; 0 if they were not hashed
 * @param tokenTopic partition 0 of it carries the token in the participant's group
 * @param isFirstAttempt false if Spark tried this task, or its stage, before
 */
public record Prepared(
    String transactionalId,
    int partition,
    long producerId,
    int epoch,
    int transactionVersion,
    long rows,
    long contentHash,
    String tokenTopic,
    boolean isFirstAttempt)
    implements java.io.Serializable {}

package io.oncelog.kafka.sink;

import java.util.List;

/**
 * One prepared participant: an open transaction with all rows of one task. The driver reads it as JSON, with the names
 * of the components.
 *
 * @param partition of the batch, as Spark numbers it
 * @param producerId identifies the transaction, together with the epoch
 * @param epoch see {@code producerId}
 * @param transactionVersion 2 if the broker raises the epoch with every transaction, else 1
 * @param rows number of rows
 * @param contentHash sum of the rows' hashes; 0 if they were not hashed
 * @param tokenTopic the token is an offset of this topic's partition 0, in the participant's group
 * @param offsetRanges where its rows are
 * @param isFirstAttempt false if Spark ran this task, or its stage, before
 */
public record Participant(
    String transactionalId,
    int partition,
    long producerId,
    int epoch,
    int transactionVersion,
    long rows,
    long contentHash,
    String tokenTopic,
    List<OffsetRanges.Topic> offsetRanges,
    boolean isFirstAttempt)
    implements java.io.Serializable {}

package io.oncelog.kafka.sink;

import io.oncelog.kafka.IdleClients;
import java.util.Map;

/**
 * The producers that this executor keeps open between the batches of a query, because a new one costs a small batch
 * more than its records do.
 *
 * <p>A kept producer has a prepared transaction open, whose end the driver alone decides and sends. The next batch goes
 * on with it under these conditions; otherwise it is closed, and the task opens a new one:
 *
 * <ul>
 *   <li>The task has taken it out of here, so nobody else uses it.
 *   <li>The driver has said in the task's settings that it saw this very transaction (its producer id and epoch)
 *       committed, in a batch of the same lease. So its participant was decided, and nothing is lost or undecided.
 *   <li>The transaction was of version 2, where each has an epoch of its own. Then the coordinator refuses whatever
 *       still arrives for the one before. At version 1 a late commit of the batch before would commit the open,
 *       undecided transaction of this one; hence such a producer is never kept.
 *   <li>It goes on as the producer that the coordinator named when it answered that commit, never as one of its own
 *       reckoning. If somebody has fenced the id since, the coordinator refuses its writes, and nothing else happens.
 * </ul>
 */
final class ProducerCache {
  /** The share of the heap for the buffers of all kept producers. */
  private static final int SHARE_OF_HEAP = 16;

  /** A producer whose batch filled more of its buffer is not kept; opening one costs a large batch little. */
  private static final long LARGE_BYTES = 8 << 20;

  private static final ProducerCache INSTANCE = new ProducerCache();

  /** What a producer can be used for: the first attempt of this partition's task, in any batch of this lease. */
  record Key(Map<String, String> settings, String transactionalIdPrefix, long lease, int partition) {
    boolean isOutlivedBy(Key other) {
      return lease < other.lease
          && transactionalIdPrefix.equals(other.transactionalIdPrefix)
          && settings.equals(other.settings);
    }
  }

  private final IdleClients<Key, TransactionalProducer> kept =
      new IdleClients<>(
          "oncelog-kafka-kept-producers",
          Runtime.getRuntime().maxMemory() / SHARE_OF_HEAP,
          TransactionalProducer::close);

  static ProducerCache get() {
    return INSTANCE;
  }

  /**
   * The producer that was kept, ready for its next transaction; null if a new one must be opened.
   *
   * @param handover of the id's last transaction; null if the driver did not see it committed
   */
  TransactionalProducer take(Key key, Handover handover) {
    kept.drop(other -> other.isOutlivedBy(key));
    TransactionalProducer found = kept.take(key, any -> true);
    if (found == null) {
      return null;
    }
    if (handover == null || !found.identity().equals(handover.ended())) {
      found.close();
      return null;
    }
    try {
      found.adopt(handover.following());
      return found;
    } catch (RuntimeException problem) {
      found.close();
      throw problem;
    }
  }

  /** Keeps a producer that has prepared its transaction, or closes it. */
  void give(Key key, TransactionalProducer producer, long bufferedBytes) {
    if (producer.isTransactionV2() && bufferedBytes <= LARGE_BYTES) {
      kept.give(key, producer, bufferedBytes);
    } else {
      producer.close();
    }
  }
}

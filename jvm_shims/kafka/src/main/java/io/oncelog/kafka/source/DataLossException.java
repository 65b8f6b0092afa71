package io.oncelog.kafka.source;

/** Records that the query still needed are gone, and failOnDataLoss says to stop for that. */
final class DataLossException extends IllegalStateException {
  private static final String REMEDY =
      ". Records may have been lost that this query had not read. To go on without them, set failOnDataLoss to false; "
          + "to keep them longer, raise the topic's retention";

  DataLossException(String text, Object... fields) {
    super(Problems.message(text, fields) + REMEDY);
  }
}

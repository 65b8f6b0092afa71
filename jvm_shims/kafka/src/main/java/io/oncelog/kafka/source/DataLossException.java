package io.oncelog.kafka.source;

/** Records that the query still needed are gone, and failOnDataLoss is on. */
final class DataLossException extends IllegalStateException {
  private static final String REMEDY =
      ". The query may have lost records that it had not read. To continue without them, set failOnDataLoss to false; "
          + "to keep records longer, raise the topic's retention";

  DataLossException(String text, Object... fields) {
    super(Problems.message(text, fields) + REMEDY);
  }
}

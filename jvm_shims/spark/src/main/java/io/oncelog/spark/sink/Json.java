package io.oncelog.spark.sink;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;

/** What Python and this jar tell each other. */
final class Json {
  private static final ObjectMapper JSON =
      new ObjectMapper().enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES);

  private Json() {}

  static <T> T read(String text, Class<T> kind) {
    try {
      return JSON.readValue(text, kind);
    } catch (JsonProcessingException problem) {
      throw otherVersion(problem);
    }
  }

  static String write(Object value) {
    try {
      return JSON.writeValueAsString(value);
    } catch (JsonProcessingException problem) {
      throw new IllegalStateException("what a task wrote cannot be written as JSON", problem);
    }
  }

  static IllegalStateException otherVersion(Exception problem) {
    return new IllegalStateException("this jar and the Python package oncelog have different versions", problem);
  }
}

package io.oncelog.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;

/** The version of oncelog that this jar is of. One jar twice on a class path does no harm, two versions of it would. */
public final class Version {
  private static final String FILE = "io/oncelog/kafka/version.txt";

  private static final TreeMap<String, List<String>> FOUND = all();

  private Version() {}

  /**
   * The version.
   *
   * @throws IllegalArgumentException the class path has jars of several versions
   */
  public static String get() {
    if (FOUND.size() > 1) {
      throw new IllegalArgumentException(
          "UsageError: this Spark has the Kafka connector's jar in several versions; start it with one of them, as "
              + "`oncelog jars` prints it; jars=" + FOUND);
    }
    return FOUND.firstKey();
  }

  /** Where each version on the class path lies. */
  private static TreeMap<String, List<String>> all() {
    TreeMap<String, List<String>> found = new TreeMap<>();
    try {
      for (URL file : Collections.list(Version.class.getClassLoader().getResources(FILE))) {
        try (InputStream stream = file.openStream()) {
          String version = new String(stream.readAllBytes(), StandardCharsets.UTF_8).strip();
          found.computeIfAbsent(version, any -> new ArrayList<>()).add(jar(file));
        }
      }
    } catch (IOException problem) {
      throw new IllegalStateException("a jar of the Kafka connector cannot be read", problem);
    }
    return found;
  }

  private static String jar(URL file) {
    return file.toString().replaceFirst("^jar:file:", "").replaceFirst("!/.*$", "");
  }
}

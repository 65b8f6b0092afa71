package io.oncelog.kafka;

import java.io.IOException;
import java.net.JarURLConnection;
import java.net.URL;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import java.util.jar.Attributes;

/** The version of this jar. The same jar twice on a class path does no harm, but two versions of it would. */
public final class Version {
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
          "UsageError: this Spark has the Kafka connector's jar in several versions; start it with only the one that "
              + "`oncelog jars` prints; jars=" + FOUND);
    }
    return FOUND.firstKey();
  }

  /** The jars on the class path, by version. */
  private static TreeMap<String, List<String>> all() {
    String entry = KafkaProvider.class.getName().replace('.', '/') + ".class";
    TreeMap<String, List<String>> found = new TreeMap<>();
    try {
      for (URL file : Collections.list(KafkaProvider.class.getClassLoader().getResources(entry))) {
        JarURLConnection jar = (JarURLConnection) file.openConnection();
        String version = jar.getMainAttributes().getValue(Attributes.Name.IMPLEMENTATION_VERSION);
        found.computeIfAbsent(version, any -> new ArrayList<>()).add(jar.getJarFileURL().getPath());
      }
    } catch (IOException problem) {
      throw new IllegalStateException("a jar of the Kafka connector cannot be read", problem);
    }
    return found;
  }
}

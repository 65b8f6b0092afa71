package io.oncelog.conformance;

import java.net.URL;
import java.net.URLClassLoader;
import org.apache.spark.sql.connector.catalog.TableProvider;

/**
 * Loads Spark's own provider of its Kafka source, although a class of this project hides it. The sink's suites use it
 * to read what oncelog wrote.
 */
public final class SparksReads extends URLClassLoader {
  private static final String HIDDEN = "org.apache.spark.sql.kafka010.KafkaSourceProvider";

  private SparksReads(URL jar, ClassLoader others) {
    super(new URL[] {jar}, others);
  }

  /** Whether the suites of the sink are running. */
  public static boolean areWanted() {
    return Boolean.getBoolean("oncelog.conformance.sparksReads");
  }

  /**
   * The provider.
   *
   * @param neighbour a class of the same jar that is not hidden
   */
  public static TableProvider provider(Class<?> neighbour) {
    URL jar = neighbour.getProtectionDomain().getCodeSource().getLocation();
    try {
      Class<?> found = new SparksReads(jar, neighbour.getClassLoader()).loadClass(HIDDEN);
      return (TableProvider) found.getConstructor().newInstance();
    } catch (ReflectiveOperationException problem) {
      throw new IllegalStateException(problem);
    }
  }

  @Override
  protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
    if (!name.startsWith(HIDDEN)) {
      return super.loadClass(name, resolve);
    }
    synchronized (getClassLoadingLock(name)) {
      Class<?> loaded = findLoadedClass(name);
      return loaded == null ? findClass(name) : loaded;
    }
  }
}

package io.oncelog.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of a table in Spark's catalog, as {@code CREATE TABLE ... OPTIONS (...)} gave them. Spark passes them
 * only to the table, among its properties, and leaves them out of its reads and writes. The Kafka connector's jar
 * contains this class too.
 */
public final class TableOptions {
  private static final String PATH = "path";

  private final Map<String, String> options = new HashMap<>();

  /**
   * @param properties as Spark gives them to a table. If the table is not in the catalog, they are the options of its
   *     only read or write, which get them anyway.
   */
  public TableOptions(Map<String, String> properties) {
    if (!properties.containsKey(TableCatalog.PROP_PROVIDER)) {
      return;
    }
    properties.forEach(
        (name, value) -> {
          if (name.startsWith(TableCatalog.OPTION_PREFIX)) {
            options.put(name.substring(TableCatalog.OPTION_PREFIX.length()), value);
          }
        });
    String location = properties.get(TableCatalog.PROP_LOCATION);
    if (location != null) { // what Spark makes of the option path
      options.putIfAbsent(PATH, location);
    }
  }

  /** The options of a read or write of the table; those that it gives itself take precedence. */
  public CaseInsensitiveStringMap with(CaseInsensitiveStringMap given) {
    if (options.isEmpty()) {
      return given;
    }
    Map<String, String> all = new HashMap<>(options);
    all.keySet().removeIf(given::containsKey);
    all.putAll(given.asCaseSensitiveMap());
    return new CaseInsensitiveStringMap(all);
  }
}

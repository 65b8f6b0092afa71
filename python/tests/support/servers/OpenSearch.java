import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.index.mapper.MapperExtrasPlugin;
import org.opensearch.node.Node;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * A cluster of one node of OpenSearch, without its security plugin, in a process that runs until it is killed. With the
 * names of Elasticsearch's packages it is one of that.
 */
public final class OpenSearch {
  private static final List<Class<? extends Plugin>> PLUGINS =
      List.of(Netty4Plugin.class, MapperExtrasPlugin.class);

  private OpenSearch() {}

  /** Node's own main class refuses to run as root, and takes no plugins from the class path. */
  private static final class Embedded extends Node {
    Embedded(Environment environment, Collection<Class<? extends Plugin>> plugins) {
      super(environment, plugins, false);
    }
  }

  /** The arguments are the folder of its data, which is kept, its port, and a process whose end ends this one. */
  public static void main(String[] arguments) {
    try {
      Path home = Files.createDirectories(Path.of(arguments[0]));
      ProcessHandle owner = ProcessHandle.of(Long.parseLong(arguments[2])).orElseThrow();
      owner.onExit().thenRun(() -> Runtime.getRuntime().halt(0));
      Environment environment = new Environment(settings(home, arguments[1]), home.resolve("config"));
      new Embedded(environment, PLUGINS).start();
      Thread.currentThread().join();
    } catch (Throwable problem) {
      problem.printStackTrace();
      Runtime.getRuntime().halt(1); // threads that were started would go on
    }
  }

  private static Settings settings(Path home, String port) {
    return Settings.builder()
        .put("path.home", home.toString())
        .put("http.host", "127.0.0.1")
        .put("http.port", port)
        .put("http.type", "netty4")
        .put("transport.host", "127.0.0.1")
        .put("transport.port", "0")
        .put("transport.type", "netty4")
        .put("discovery.type", "single-node")
        .put("cluster.routing.allocation.disk.threshold_enabled", false)
        .put("node.processors", 2)
        .build();
  }
}

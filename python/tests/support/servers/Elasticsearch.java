import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginBundle;
import org.elasticsearch.plugins.PluginDescriptor;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * A cluster of one node of Elasticsearch 8 or 9, without X-Pack, in a process that runs until it is killed. Older ones
 * are started by OpenSearch.java.
 */
public final class Elasticsearch {
  private Elasticsearch() {}

  /** The arguments are a file of its settings, a process whose end ends this one, and the folder of its plugin. */
  public static void main(String[] arguments) {
    try {
      Path file = Path.of(arguments[0]);
      ProcessHandle owner = ProcessHandle.of(Long.parseLong(arguments[1])).orElseThrow();
      owner.onExit().thenRun(() -> Runtime.getRuntime().halt(0));
      LogConfigurator.configureESLogging(); // without it no class has a logger
      Environment environment = new Environment(Settings.builder().loadFromPath(file).build(), file.getParent());
      Set<PluginBundle> plugins = Set.of(plugin(Path.of(arguments[2])));
      new Node(environment, PluginsLoader.createPluginsLoader(Set.of(), plugins, Map.of(), false)).start();
      Thread.currentThread().join();
    } catch (Throwable problem) {
      problem.printStackTrace();
      Runtime.getRuntime().halt(1); // threads that were started would go on
    }
  }

  /** By reflection: the public methods that find plugins take other arguments in 9.5 than in 8.19. */
  private static PluginBundle plugin(Path folder) throws Exception {
    var bundle = PluginBundle.class.getDeclaredConstructor(PluginDescriptor.class, Path.class);
    bundle.setAccessible(true);
    return bundle.newInstance(PluginDescriptor.readFromProperties(folder), folder);
  }
}

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.opensearch.Version;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.Node;
import org.opensearch.plugins.PluginInfo;

/**
 * A cluster of one node of OpenSearch, without its security plugin, in a process that runs until it is killed. With the
 * names of Elasticsearch's packages it is one of Elasticsearch 7.
 */
public final class OpenSearch {
  private OpenSearch() {}

  /** Node's own main class refuses to run as root, and takes no plugins from the class path. */
  private static final class Embedded extends Node {
    @SuppressWarnings({"rawtypes", "unchecked"}) // plugins are classes, and from OpenSearch 3 on descriptions of them
    Embedded(Environment environment, Collection plugins) {
      super(environment, plugins, false);
    }
  }

  /** The arguments are a file of its settings, a process whose end ends this one, and the classes of its plugins. */
  public static void main(String[] arguments) {
    try {
      Path file = Path.of(arguments[0]);
      ProcessHandle owner = ProcessHandle.of(Long.parseLong(arguments[1])).orElseThrow();
      owner.onExit().thenRun(() -> Runtime.getRuntime().halt(0));
      Environment environment = new Environment(Settings.builder().loadFromPath(file).build(), file.getParent());
      new Embedded(environment, plugins(List.of(arguments).subList(2, arguments.length))).start();
      Thread.currentThread().join();
    } catch (Throwable problem) {
      problem.printStackTrace();
      Runtime.getRuntime().halt(1); // threads that were started would go on
    }
  }

  private static Collection<Object> plugins(List<String> names) throws ReflectiveOperationException {
    var taken = Node.class.getDeclaredConstructor(Environment.class, Collection.class, boolean.class);
    boolean areDescribed = taken.getGenericParameterTypes()[1].getTypeName().contains("PluginInfo");
    Collection<Object> found = new ArrayList<>();
    for (String name : names) {
      found.add(areDescribed ? described(name) : Class.forName(name));
    }
    return found;
  }

  private static Object described(String name) throws ReflectiveOperationException {
    return PluginInfo.class
        .getConstructor(
            String.class, String.class, String.class, Version.class, String.class, String.class, String.class,
            List.class, boolean.class)
        .newInstance(name, name, "1", Version.CURRENT, "21", name, null, List.of(), false);
  }
}

import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** YARN with one node, in one process. Writes the configuration of its clients, and runs until it is killed. */
public final class Yarn {
  private static final int PAUSE_MS = 50;

  private Yarn() {}

  /** The only argument is the file of the configuration. */
  public static void main(String[] arguments) {
    try {
      start(Path.of(arguments[0]));
    } catch (Throwable problem) {
      problem.printStackTrace();
      Runtime.getRuntime().halt(1); // threads that were started would go on
    }
  }

  private static void start(Path file) throws Exception {
    YarnConfiguration settings = new YarnConfiguration();
    settings.set("fs.defaultFS", "file:///");
    settings.set("yarn.scheduler.capacity.root.queues", "default");
    settings.set("yarn.scheduler.capacity.root.default.capacity", "100");
    settings.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
    settings.set("yarn.scheduler.minimum-allocation-mb", "128");
    settings.set("yarn.nodemanager.resource.memory-mb", "4096");
    settings.set("yarn.nodemanager.pmem-check-enabled", "false");
    settings.set("yarn.nodemanager.vmem-check-enabled", "false");
    settings.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "100");
    MiniYARNCluster cluster = new MiniYARNCluster("oncelog", 1, 1, 1);
    cluster.init(settings);
    cluster.start();
    while (cluster.getConfig().get(YarnConfiguration.RM_ADDRESS).endsWith(":0")) {
      Thread.sleep(PAUSE_MS); // it has no port yet
    }
    Path written = file.resolveSibling("coming.xml");
    try (OutputStream output = Files.newOutputStream(written)) {
      cluster.getConfig().writeXml(output);
    }
    Files.move(written, file);
  }
}

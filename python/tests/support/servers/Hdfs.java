import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS with a NameNode and one DataNode, in one process that runs until it is killed. */
public final class Hdfs {
  private Hdfs() {}

  /** The arguments are the folder of its data, which is kept, the NameNode's port, and a file that says it is up. */
  public static void main(String[] arguments) {
    try {
      start(Path.of(arguments[0]), Integer.parseInt(arguments[1]), Path.of(arguments[2]));
    } catch (Throwable problem) {
      problem.printStackTrace();
      Runtime.getRuntime().halt(1); // threads that were started would go on
    }
  }

  private static void start(Path folder, int port, Path mark) throws Exception {
    boolean isNew = !Files.exists(folder);
    Configuration settings = new Configuration();
    settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.toString());
    settings.set("dfs.replication", "1");
    settings.set("dfs.namenode.http-address", "127.0.0.1:0");
    settings.set("dfs.blockreport.initialDelay", "0");
    settings.set("dfs.namenode.safemode.extension", "0");
    MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(settings)
            .nameNodePort(port)
            .numDataNodes(1)
            .format(isNew)
            .manageNameDfsDirs(true)
            .build();
    cluster.waitActive();
    Files.createFile(mark);
  }
}

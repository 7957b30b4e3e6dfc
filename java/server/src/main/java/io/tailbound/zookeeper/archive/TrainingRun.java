package io.tailbound.zookeeper.archive;

import io.tailbound.zookeeper.TailboundPeerMain;
import io.tailbound.zookeeper.config.Profile;
import io.tailbound.zookeeper.config.TailboundConfig;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs an ensemble of three servers inside of one JVM through a start, a write, the loss of its leader
 * and another write, so that a class-data-sharing archive dumped at the end (option {@code
 * -XX:ArchiveClassesAtExit}) holds the classes of every role. Used by {@code java/build} only.
 */
public final class TrainingRun {

  private static final Logger LOG = LoggerFactory.getLogger(TrainingRun.class);
  private static final int SERVERS = 3;
  private static final int SESSION_TIMEOUT_MS = 10_000;
  private static final long LIMIT_MS = 60_000;

  private final List<TailboundPeerMain> servers = new ArrayList<>();
  private final List<Integer> clientPorts = new ArrayList<>();

  private TrainingRun() {}

  /** Runs it in a folder of its own, which is removed afterwards. */
  public static void main(String[] args) throws IOException, InterruptedException {
    Path directory = Files.createTempDirectory("tailbound-training");
    boolean trained = false;
    try {
      trained = new TrainingRun().train(directory);
    } finally {
      remove(directory);
    }
    // Threads of the servers may linger; the archive is dumped on exit.
    System.exit(trained ? 0 : 1);
  }

  private boolean train(Path directory) throws IOException, InterruptedException {
    startAll(directory);
    boolean wrote = write("/first");
    for (TailboundPeerMain server : servers) {
      if (server.leads()) {
        server.close();
        break;
      }
    }
    return write("/second") && wrote;
  }

  private void startAll(Path directory) throws IOException {
    int[] ports = freePorts(3 * SERVERS);
    StringBuilder members = new StringBuilder();
    for (int id = 1; id <= SERVERS; id++) {
      members.append("server.").append(id).append("=127.0.0.1:").append(ports[3 * id - 3]).append(':')
          .append(ports[3 * id - 2]).append('\n');
    }
    for (int id = 1; id <= SERVERS; id++) {
      Path data = Files.createDirectories(directory.resolve(Integer.toString(id)));
      Files.writeString(data.resolve("myid"), id + "\n");
      Path file = Files.writeString(directory.resolve(id + ".cfg"), """
          tickTime=500
          initLimit=20
          syncLimit=20
          dataDir=%s
          clientPort=%d
          clientPortAddress=127.0.0.1
          admin.enableServer=false
          %s
          """.formatted(data, ports[3 * id - 1], members));
      clientPorts.add(ports[3 * id - 1]);
      start(file);
    }
  }

  private void start(Path file) {
    TailboundPeerMain server = new TailboundPeerMain(TailboundConfig.of(Profile.TAILBOUND));
    servers.add(server);
    Thread thread = new Thread(() -> {
      try {
        server.runFile(file);
      } catch (Exception e) {
        LOG.error("A server of the training run ended", e);
      }
    }, "training");
    thread.setDaemon(true);
    thread.start();
  }

  /** Writes through any server that serves, within the limit. */
  private boolean write(String path) throws IOException, InterruptedException {
    long end = System.nanoTime() + LIMIT_MS * 1_000_000L;
    while (System.nanoTime() - end < 0) {
      for (int port : clientPorts) {
        try (ZooKeeper client = new ZooKeeper("127.0.0.1:" + port, SESSION_TIMEOUT_MS, event -> { })) {
          client.create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
          return true;
        } catch (KeeperException.NodeExistsException done) {
          return true;
        } catch (KeeperException notYet) {
          LOG.debug("Not yet", notYet);
        }
      }
      Thread.sleep(100);
    }
    return false;
  }

  private static int[] freePorts(int count) throws IOException {
    List<ServerSocket> held = new ArrayList<>();
    int[] ports = new int[count];
    try {
      for (int i = 0; i < count; i++) {
        ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        held.add(socket);
        ports[i] = socket.getLocalPort();
      }
    } finally {
      for (ServerSocket socket : held) {
        socket.close();
      }
    }
    return ports;
  }

  private static void remove(Path directory) throws IOException {
    try (Stream<Path> paths = Files.walk(directory)) {
      for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(path);
      }
    }
  }
}

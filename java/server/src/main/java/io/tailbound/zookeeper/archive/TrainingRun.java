package io.tailbound.zookeeper.archive;

import io.tailbound.zookeeper.TailboundPeerMain;
import io.tailbound.zookeeper.config.ConfigProblem;
import io.tailbound.zookeeper.config.Profile;
import io.tailbound.zookeeper.config.TailboundConfig;
import io.tailbound.zookeeper.rehearsal.Rehearsal;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig.ConfigException;

/**
 * Reads a configuration and rehearses a recovery, so that a class-data-sharing archive dumped at the end
 * (option {@code -XX:ArchiveClassesAtExit}) holds the classes of a start and of every role. Used by
 * {@code java/build} only.
 */
public final class TrainingRun {

  private static final int RECOVERIES = 1;

  private TrainingRun() {}

  /** Runs it in a folder of its own, which is removed afterwards. */
  public static void main(String[] args) throws Exception {
    Path directory = Files.createTempDirectory("tailbound-training");
    Path file = directory.resolve("zoo.cfg");
    try {
      Files.writeString(directory.resolve("myid"), "1\n");
      readConfiguration(file, directory);
      new TailboundPeerMain(TailboundConfig.of(Profile.TAILBOUND));
      Rehearsal.run(TailboundConfig.of(Profile.TAILBOUND), RECOVERIES, directory.resolve("rehearsal"));
    } finally {
      Files.deleteIfExists(file);
      Files.deleteIfExists(directory.resolve("myid"));
      Files.delete(directory);
    }
    // Threads of the servers may linger; the archive is dumped on exit.
    System.exit(0);
  }

  private static void readConfiguration(Path file, Path directory)
      throws IOException, ConfigProblem, ConfigException {
    Files.writeString(file, """
        tickTime=2000
        initLimit=10
        syncLimit=5
        dataDir=%s
        clientPort=2181
        server.1=127.0.0.1:2888:3888
        server.2=127.0.0.1:2889:3889
        server.3=127.0.0.1:2890:3890
        """.formatted(directory));
    TailboundConfig.load(file);
    new QuorumPeerConfig().parse(file.toString());
  }
}

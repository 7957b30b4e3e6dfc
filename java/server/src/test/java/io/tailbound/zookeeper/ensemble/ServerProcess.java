package io.tailbound.zookeeper.ensemble;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** One server of an ensemble, as a process of its own. */
final class ServerProcess {

  /** Main class of the stock server. */
  static final String STOCK = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

  /** Main class of ours. */
  static final String OURS = "io.tailbound.zookeeper.TailboundPeerMain";

  private final int id;
  private String mainClass;
  private List<String> jvmOptions = List.of();
  private final Path directory;
  private final InetSocketAddress clientAddress;
  private Process process;
  private int starts;

  ServerProcess(int id, String mainClass, Path directory, InetSocketAddress clientAddress) {
    this.id = id;
    this.mainClass = mainClass;
    this.directory = directory;
    this.clientAddress = clientAddress;
  }

  int id() {
    return id;
  }

  InetSocketAddress clientAddress() {
    return clientAddress;
  }

  /** The server as clients name it. */
  String connectString() {
    return clientAddress.getHostString() + ":" + clientAddress.getPort();
  }

  Path directory() {
    return directory;
  }

  /** The next start runs this main class. */
  void runs(String newMainClass) {
    mainClass = newMainClass;
  }

  /** The next start has these options of the JVM. */
  void withJvmOptions(List<String> options) {
    jvmOptions = options;
  }

  Path log() {
    return directory.resolve("log-" + starts + ".txt");
  }

  String logText() throws IOException {
    StringBuilder text = new StringBuilder();
    for (int start = 1; start <= starts; start++) {
      text.append(Files.readString(directory.resolve("log-" + start + ".txt")));
    }
    return text.toString();
  }

  boolean alive() {
    return process != null && process.isAlive();
  }

  void start() throws IOException {
    starts++;
    List<String> command = new ArrayList<>(List.of(
        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
        "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
    command.addAll(jvmOptions);
    command.addAll(List.of(
        "-Dlogback.configurationFile=" + Path.of("src/main/config/logback.xml").toAbsolutePath(),
        "-cp", "target/classes" + java.io.File.pathSeparator + "target/lib/*",
        mainClass, directory.resolve("zoo.cfg").toString()));
    process = new ProcessBuilder(command)
        .redirectErrorStream(true)
        .redirectOutput(log().toFile())
        .start();
  }

  void kill() throws InterruptedException {
    process.destroyForcibly();
    process.waitFor();
  }

  /** Sends a signal by name, such as STOP or CONT. */
  void signal(String name) throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).inheritIO().start().waitFor();
  }

  void end() throws IOException, InterruptedException {
    if (alive()) {
      signal("CONT");
      process.destroyForcibly();
      process.waitFor(10, TimeUnit.SECONDS);
    }
  }
}

package io.tailbound.zookeeper.ensemble;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.IntFunction;

/**
 * An ensemble of server processes on this host, ended when closed. It has a loopback address of its own, since a
 * connection to 127.0.0.1 may be given the port of a server that does not listen now: who is elected next could
 * not listen for its followers as long as that connection lasts.
 */
final class Ensemble implements AutoCloseable {

  /** A line of zoo.cfg for servers of which nothing is timed: rehearsals take most of the time of a start. */
  static final String UNREHEARSED = "tailbound.leader.rehearsals=0\n";

  private final List<ServerProcess> servers = new ArrayList<>();
  private final List<Integer> electionPorts = new ArrayList<>();
  private final String host;

  private Ensemble(String host) {
    this.host = host;
  }

  /**
   * @param directory an empty folder
   * @param size how many servers
   * @param mainClass main class of the server with the id
   * @param settings further lines of zoo.cfg of the server with the id
   */
  static Ensemble start(Path directory, int size, IntFunction<String> mainClass, IntFunction<String> settings)
      throws IOException {
    Ensemble ensemble = prepare(directory, size, mainClass, settings);
    for (ServerProcess server : ensemble.servers) {
      server.start();
    }
    return ensemble;
  }

  /** As {@link #start}, but no server runs yet. */
  static Ensemble prepare(Path directory, int size, IntFunction<String> mainClass, IntFunction<String> settings)
      throws IOException {
    ThreadLocalRandom random = ThreadLocalRandom.current();
    Ensemble ensemble = new Ensemble("127." + random.nextInt(64, 192) + "." + random.nextInt(256) + ".1");
    int[] ports = freePorts(ensemble.host, 3 * size);
    StringBuilder members = new StringBuilder();
    for (int id = 1; id <= size; id++) {
      members.append("server.").append(id).append('=').append(ensemble.host).append(':').append(ports[3 * id - 3])
          .append(':').append(ports[3 * id - 2]).append('\n');
    }
    for (int id = 1; id <= size; id++) {
      Path own = Files.createDirectories(directory.resolve("server" + id));
      Files.writeString(own.resolve("zoo.cfg"), """
          tickTime=2000
          initLimit=10
          syncLimit=5
          dataDir=%s
          clientPort=%d
          clientPortAddress=%s
          admin.enableServer=false
          4lw.commands.whitelist=*
          %s
          %s
          """.formatted(own.resolve("data"), ports[3 * id - 1], ensemble.host, settings.apply(id), members));
      Files.writeString(Files.createDirectories(own.resolve("data")).resolve("myid"), id + "\n");
      ensemble.servers.add(new ServerProcess(
          id, mainClass.apply(id), own, new InetSocketAddress(ensemble.host, ports[3 * id - 1])));
      ensemble.electionPorts.add(ports[3 * id - 2]);
    }
    return ensemble;
  }

  List<ServerProcess> servers() {
    return servers;
  }

  ServerProcess server(int id) {
    return servers.get(id - 1);
  }

  InetSocketAddress electionAddress(int id) {
    return new InetSocketAddress(host, electionPorts.get(id - 1));
  }

  /** Waits until what a server has logged contains the text. */
  static void awaitLogged(ServerProcess server, String text, long limitNs) throws IOException, InterruptedException {
    long end = System.nanoTime() + limitNs;
    while (!server.logText().contains(text)) {
      if (System.nanoTime() - end > 0) {
        throw new AssertionError("server " + server.id() + " did not log '" + text + "'");
      }
      Thread.sleep(50);
    }
  }

  /** The newest lines that each server which is alive has logged, for the message of a test that failed. */
  String lastWords(int lines) throws IOException {
    StringBuilder words = new StringBuilder();
    for (ServerProcess server : servers.stream().filter(ServerProcess::alive).toList()) {
      List<String> log = Files.readAllLines(server.log());
      words.append("\nserver ").append(server.id()).append(":\n");
      log.subList(Math.max(0, log.size() - lines), log.size()).forEach(line -> words.append(line).append('\n'));
    }
    return words.toString();
  }

  String connectString() {
    return servers.stream().map(ServerProcess::connectString)
        .reduce((a, b) -> a + "," + b).orElseThrow();
  }

  /** The server that says that it leads and has the most followers, if there is one now. */
  Optional<ServerProcess> leader() {
    return servers.stream().filter(ServerProcess::alive)
        .filter(s -> ask(s, "srvr").contains("Mode: leader")).findFirst();
  }

  /** Waits until one server leads and all that are alive serve. */
  ServerProcess awaitHealth(long limitNs) throws InterruptedException {
    long end = System.nanoTime() + limitNs;
    while (System.nanoTime() - end < 0) {
      Optional<ServerProcess> leader = leader();
      boolean all = servers.stream().filter(ServerProcess::alive)
          .allMatch(s -> ask(s, "srvr").contains("Mode: "));
      if (leader.isPresent() && all) {
        return leader.get();
      }
      Thread.sleep(20);
    }
    throw new AssertionError("no health within the limit");
  }

  /** Answer to a four-letter word, empty if there is none. */
  static String ask(ServerProcess server, String word) {
    try (Socket socket = new Socket()) {
      socket.connect(server.clientAddress(), 500);
      socket.setSoTimeout(500);
      socket.getOutputStream().write(word.getBytes(StandardCharsets.US_ASCII));
      socket.getOutputStream().flush();
      InputStream in = socket.getInputStream();
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      return "";
    }
  }

  /** Ports that were free a moment ago; all are held at once, so that they differ. */
  private static int[] freePorts(String host, int count) throws IOException {
    List<ServerSocket> held = new ArrayList<>();
    try {
      int[] ports = new int[count];
      for (int i = 0; i < count; i++) {
        held.add(new ServerSocket(0, 1, InetAddress.getByName(host)));
        ports[i] = held.get(i).getLocalPort();
      }
      return ports;
    } finally {
      for (ServerSocket socket : held) {
        socket.close();
      }
    }
  }

  @Override
  public void close() throws IOException, InterruptedException {
    for (ServerProcess server : servers) {
      server.end();
    }
  }
}

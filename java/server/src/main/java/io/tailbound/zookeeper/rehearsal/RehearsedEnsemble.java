package io.tailbound.zookeeper.rehearsal;

import io.tailbound.zookeeper.config.TailboundConfig;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.IntSupplier;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.common.ZKConfig;
import org.apache.zookeeper.server.quorum.QuorumPeer;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.RehearsedPeer;

/** Three servers inside of this process, on ports of the loopback interface that were free. */
final class RehearsedEnsemble implements AutoCloseable {

  /** No exit code of a process. */
  static final int NO_EXIT = Integer.MIN_VALUE;

  private static final int SERVERS = 3;
  private static final int SESSION_TIMEOUT_MS = 10_000;
  private static final long LOOK_INTERVAL_MS = 2;

  private final TailboundConfig config;
  private final Path directory;
  private final long endNs;
  private final IntSupplier exitCode;
  private final Map<Long, QuorumServer> members = new HashMap<>();
  private final List<InetSocketAddress> clientAddresses = new ArrayList<>();
  private final List<RehearsedPeer> peers = new ArrayList<>();
  private int writes;

  /**
   * Starts it and waits until all servers serve.
   *
   * @param directory an empty folder
   * @param limit how long all that is asked of it may take
   * @param exitCode with which one of its servers wanted to end the process; {@link #NO_EXIT} if none did
   */
  RehearsedEnsemble(TailboundConfig config, Path directory, Duration limit, IntSupplier exitCode)
      throws IOException, InterruptedException, TimeoutException {
    this.exitCode = exitCode;
    this.config = config;
    this.directory = directory;
    this.endNs = System.nanoTime() + limit.toNanos();
    List<InetSocketAddress> free = freeAddresses(3 * SERVERS);
    for (int i = 0; i < SERVERS; i++) {
      long id = i + 1;
      members.put(id, new QuorumServer(id, free.get(3 * i), free.get(3 * i + 1)));
      clientAddresses.add(free.get(3 * i + 2));
      Path folder = Files.createDirectories(folder(id));
      // With zookeeper.db.autocreate=false a server without data would not vote otherwise.
      Files.createFile(folder.resolve("initialize"));
    }
    try {
      for (int i = 0; i < SERVERS; i++) {
        peers.add(start(i + 1));
      }
      await(this::allServe, "the start of three servers");
    } catch (IOException | InterruptedException | TimeoutException | RuntimeException e) {
      close();
      throw e;
    }
  }

  /** The leader ends, the others recover, a client writes, and the server that ended comes back. */
  void recover() throws IOException, InterruptedException, TimeoutException {
    RehearsedPeer leader = peers.stream().filter(RehearsedEnsemble::leads).findFirst()
        .orElseThrow(() -> new IOException("a rehearsed ensemble lost its leader by itself"));
    peers.remove(leader);
    end(leader);
    await(this::allServe, "a new leader");
    write();
    peers.add(start(leader.getMyId()));
    await(this::allServe, "the return of a server");
  }

  /** Writes once, through a follower, in a session of its own; not where clients must authenticate themselves. */
  void write() throws IOException, InterruptedException {
    RehearsedPeer follower = peers.stream().filter(peer -> !leads(peer)).findFirst().orElseThrow();
    InetSocketAddress address = clientAddresses.get((int) follower.getMyId() - 1);
    String connectString = "127.0.0.1:" + address.getPort();
    ZKClientConfig plain = new ZKClientConfig();
    plain.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, "false");
    plain.setProperty(ZKClientConfig.SECURE_CLIENT, "false");
    plain.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, "ClientCnxnSocketNIO");
    plain.setProperty(ZKConfig.JUTE_MAXBUFFER, "1048576");
    try (ZooKeeper client = new ZooKeeper(connectString, SESSION_TIMEOUT_MS, event -> { }, plain)) {
      client.create("/" + writes, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
      writes++;
    } catch (KeeperException.SessionClosedRequireAuthException refused) {
      // How clients are to authenticate is not known here: the recovery is rehearsed without a write.
    } catch (KeeperException e) {
      throw new IOException("a write failed: " + e.getMessage(), e);
    }
  }

  private static boolean leads(RehearsedPeer peer) {
    return peer.getPeerState() == QuorumPeer.ServerState.LEADING;
  }

  private boolean allServe() {
    return peers.stream().allMatch(RehearsedPeer::serves) && peers.stream().anyMatch(RehearsedEnsemble::leads);
  }

  private RehearsedPeer start(long id) throws IOException {
    RehearsedPeer peer = new RehearsedPeer(
        config, members, id, folder(id).toFile(), clientAddresses.get((int) id - 1));
    peer.start();
    return peer;
  }

  private Path folder(long id) {
    return directory.resolve(Long.toString(id));
  }

  private void await(BooleanSupplier condition, String what)
      throws IOException, InterruptedException, TimeoutException {
    while (!condition.getAsBoolean()) {
      if (exitCode.getAsInt() != NO_EXIT) {
        throw new IOException("a server would have ended the process with exit code " + exitCode.getAsInt());
      }
      if (System.nanoTime() - endNs > 0) {
        throw new TimeoutException(what + " took too long");
      }
      Thread.sleep(LOOK_INTERVAL_MS);
    }
  }

  private void end(RehearsedPeer peer) throws InterruptedException {
    peer.shutdown();
    long leftMs = TimeUnit.NANOSECONDS.toMillis(endNs - System.nanoTime());
    peer.join(Math.max(1, leftMs));
  }

  @Override
  public void close() throws InterruptedException {
    for (RehearsedPeer peer : peers) {
      end(peer);
    }
    peers.clear();
  }

  /** All are held at once, so that they differ. */
  private static List<InetSocketAddress> freeAddresses(int count) throws IOException {
    List<ServerSocket> held = new ArrayList<>();
    try {
      List<InetSocketAddress> addresses = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"));
        held.add(socket);
        addresses.add(new InetSocketAddress("127.0.0.1", socket.getLocalPort()));
      }
      return addresses;
    } finally {
      for (ServerSocket socket : held) {
        socket.close();
      }
    }
  }
}

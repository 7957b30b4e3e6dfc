package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.tailbound.zookeeper.channel.StateCodec;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Strangers and garbage on the election port. */
class ElectionPortTest {

  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);
  private static final long PROTOCOL = -65536L;
  private static final int STRANGER = 99;

  private static Socket connect(InetSocketAddress server, long claimedId) throws IOException {
    Socket socket = new Socket();
    socket.connect(server, 2_000);
    socket.setSoTimeout(3_000);
    byte[] address = "127.0.0.1:1".getBytes(StandardCharsets.US_ASCII);
    DataOutputStream out = new DataOutputStream(socket.getOutputStream());
    out.writeLong(PROTOCOL);
    out.writeLong(claimedId);
    out.writeInt(address.length);
    out.write(address);
    out.flush();
    return socket;
  }

  private static byte[] notification(String configuration) {
    byte[] bytes = configuration.getBytes(StandardCharsets.UTF_8);
    return ByteBuffer.allocate(44 + bytes.length).putInt(0).putLong(3).putLong(0).putLong(1).putLong(0)
        .putInt(2).putInt(bytes.length).put(bytes).array();
  }

  private static void send(Socket socket, byte[] message) throws IOException {
    DataOutputStream out = new DataOutputStream(socket.getOutputStream());
    out.writeInt(message.length);
    out.write(message);
    out.flush();
  }

  @Test
  void strangersGetNothingAndGarbageStopsNoElection(@TempDir Path directory) throws Exception {
    try (Ensemble ensemble = Ensemble.start(directory, 3, id -> ServerProcess.OURS, id -> Ensemble.UNREHEARSED)) {
      ensemble.awaitHealth(MINUTE_NS);
      try (Socket stranger = connect(ensemble.electionAddress(1), STRANGER)) {
        send(stranger, notification("version=0"));
        assertEquals(-1, stranger.getInputStream().read(), "a server that is not configured was answered");
      }
      Random random = new Random(11);
      for (int round = 0; round < 30; round++) {
        garbage(ensemble.electionAddress(1 + random.nextInt(3)), random);
      }
      // The configuration that ends the stock server's receiving thread with an unchecked exception.
      for (int id = 1; id <= 2; id++) {
        sendUntilRead(ensemble, id, notification("server.1=\\u12"));
      }
      LeaderKills kills = new LeaderKills(ensemble);
      for (int i = 0; i < 3; i++) {
        kills.trial();
      }
      for (ServerProcess server : ensemble.servers()) {
        assertFalse(server.logText().contains("Exception occurred from thread"), "server " + server.id());
      }
    }
  }

  /** The real server may take its channel back at any moment, so more than one attempt may be needed. */
  private static void sendUntilRead(Ensemble ensemble, int id, byte[] message) throws Exception {
    long end = System.nanoTime() + MINUTE_NS;
    while (!ensemble.server(id).logText().contains("whose configuration cannot be read")) {
      assertFalse(System.nanoTime() - end > 0, "server " + id + " never read the message");
      try (Socket socket = connect(ensemble.electionAddress(id), 3)) {
        send(socket, message);
        Thread.sleep(200);
      } catch (IOException closedByTheServer) {
        Thread.sleep(50);
      }
    }
  }

  private static void garbage(InetSocketAddress server, Random random) {
    try (Socket socket = connect(server, random.nextInt(5))) {
      for (int i = 0; i < 20; i++) {
        byte[] bytes = new byte[random.nextInt(200)];
        random.nextBytes(bytes);
        if (bytes.length >= 4 && random.nextBoolean()) {
          ByteBuffer.wrap(bytes).putInt(random.nextBoolean() ? StateCodec.MAGIC : random.nextInt(4));
        }
        if (random.nextInt(40) == 0) {
          new DataOutputStream(socket.getOutputStream()).writeInt(random.nextInt());
        }
        send(socket, bytes);
      }
    } catch (IOException closedByTheServer) {
      // What it should do with most of this.
    }
  }
}

package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Upstream's TLS and SASL between servers hold for our messages, which use the same sockets. */
class SecuredChannelTest {

  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);

  @TempDir
  private Path directory;

  private void recovers(List<String> jvmOptions, String settings) throws Exception {
    try (Ensemble ensemble = Ensemble.prepare(directory, 3, id -> ServerProcess.OURS, id -> settings)) {
      for (ServerProcess server : ensemble.servers()) {
        server.withJvmOptions(jvmOptions);
        server.start();
      }
      ServerProcess leader = ensemble.awaitHealth(MINUTE_NS);
      for (ServerProcess server : ensemble.servers()) {
        Ensemble.awaitLogged(server, "is of our kind", MINUTE_NS);
      }
      new LeaderKills(ensemble).trial();
      ensemble.awaitHealth(MINUTE_NS);
      Ensemble.awaitLogged(leader, "is of our kind", MINUTE_NS);
    }
  }

  @Test
  void withTls() throws Exception {
    Path store = directory.resolve("keys.p12");
    Process keytool = new ProcessBuilder(
        Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
        "-genkeypair", "-alias", "server", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1",
        "-validity", "2", "-storetype", "PKCS12", "-storepass", "secret", "-keystore", store.toString())
        .inheritIO().start();
    assertEquals(0, keytool.waitFor());
    recovers(List.of(), """
        sslQuorum=true
        ssl.quorum.keyStore.location=%1$s
        ssl.quorum.keyStore.password=secret
        ssl.quorum.trustStore.location=%1$s
        ssl.quorum.trustStore.password=secret
        ssl.quorum.hostnameVerification=false
        """.formatted(store));
  }

  @Test
  void withSasl() throws Exception {
    Path logins = Files.writeString(directory.resolve("jaas.conf"), """
        QuorumServer {
          org.apache.zookeeper.server.auth.DigestLoginModule required
          user_quorum="secret";
        };
        QuorumLearner {
          org.apache.zookeeper.server.auth.DigestLoginModule required
          username="quorum"
          password="secret";
        };
        """);
    recovers(List.of("-Djava.security.auth.login.config=" + logins), """
        quorum.auth.enableSasl=true
        quorum.auth.learnerRequireSasl=true
        quorum.auth.serverRequireSasl=true
        """);
  }
}

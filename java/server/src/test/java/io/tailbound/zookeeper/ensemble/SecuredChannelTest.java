package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
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
    try (Ensemble ensemble = Ensemble.prepare(directory, 3, id -> ServerProcess.OURS,
        id -> Ensemble.UNREHEARSED + settings)) {
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

  private static void keytool(String... arguments) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
    command.addAll(List.of(arguments));
    command.addAll(List.of("-alias", "server", "-storetype", "PKCS12", "-storepass", "secret"));
    Process keytool = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, keytool.waitFor(), said);
  }

  @Test
  void withTls() throws Exception {
    String keys = directory.resolve("keys.p12").toString();
    String trusted = directory.resolve("trusted.p12").toString();
    String certificate = directory.resolve("certificate").toString();
    keytool("-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost", "-validity", "2", "-keystore", keys);
    keytool("-exportcert", "-file", certificate, "-keystore", keys);
    keytool("-importcert", "-noprompt", "-file", certificate, "-keystore", trusted);
    recovers(List.of(), """
        sslQuorum=true
        ssl.quorum.keyStore.location=%s
        ssl.quorum.keyStore.password=secret
        ssl.quorum.trustStore.location=%s
        ssl.quorum.trustStore.password=secret
        ssl.quorum.hostnameVerification=false
        """.formatted(keys, trusted));
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
        fips-mode=false
        """);
  }
}

package io.tailbound.zookeeper.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.Configuration;
import org.apache.zookeeper.client.ZKClientConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Clients with TLS and with SASL, whose server is killed, with the socket classes and with the agent. */
@Timeout(300)
class SecureClientsIT {
    private static final String PASSWORD = "not-a-secret";

    @TempDir
    Path folder;

    /** Makes {@code keyStore.p12} and {@code trustStore.p12} of one self-signed certificate. */
    private void makeStores() throws Exception {
        Path keys = folder.resolve("keyStore.p12");
        Path certificate = folder.resolve("certificate");
        keytool("-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1",
                "-validity", "2", "-keystore", keys.toString());
        keytool("-exportcert", "-file", certificate.toString(), "-keystore", keys.toString());
        keytool("-importcert", "-noprompt", "-file", certificate.toString(), "-keystore",
                folder.resolve("trustStore.p12").toString());
    }

    private static void keytool(String... arguments) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
        command.addAll(List.of(arguments));
        command.addAll(List.of("-alias", "zk", "-storetype", "PKCS12", "-storepass", PASSWORD));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
    }

    private List<String> tls(String prefix) {
        List<String> lines = new ArrayList<>();
        for (String kind : List.of("keyStore", "trustStore")) {
            lines.add(prefix + kind + ".location=" + folder.resolve(kind + ".p12"));
            lines.add(prefix + kind + ".password=" + PASSWORD);
            lines.add(prefix + kind + ".type=PKCS12");
        }
        // What clients of 3.8 and servers of 3.9 both speak.
        lines.add(prefix + "protocol=TLSv1.2");
        lines.add(prefix + "enabledProtocols=TLSv1.2");
        return lines;
    }

    @Test
    void tls() throws Exception {
        makeStores();
        List<String> server = new ArrayList<>(tls("ssl."));
        server.add("secureClientPort=SECURE_PORT");
        server.add("serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory");
        try (Ensemble ensemble = Ensemble.start(1, folder, server, List.of())) {
            String servers = ensemble.secureConnectString();
            ZKClientConfig config = new ZKClientConfig();
            tls("zookeeper.ssl.").forEach(line -> config.setProperty(line.split("=")[0], line.split("=")[1]));
            config.setProperty("zookeeper.client.secure", "true");
            config.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, "ClientCnxnSocketNetty");
            PromptReconnection.configure(config);
            List<String> options = new ArrayList<>();
            tls("-Dzookeeper.ssl.").forEach(options::add);
            options.addAll(List.of("-Dzookeeper.client.secure=true", ClientProcess.agent(""),
                    "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty"));
            surviveALoss(ensemble, servers, "tls", config, options);
        }
    }

    @Test
    void sasl() throws Exception {
        Path server = Files.writeString(folder.resolve("server.jaas"), jaas("Server", Map.of("user_anna", PASSWORD)));
        Path client = Files.writeString(folder.resolve("client.jaas"),
                jaas("Client", Map.of("username", "anna", "password", PASSWORD)));
        List<String> lines = List.of("authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
                "sessionRequireClientSASLAuth=true");
        String login = "-Djava.security.auth.login.config=";
        System.setProperty("java.security.auth.login.config", client.toString());
        // What an earlier test made the virtual machine read.
        Configuration.setConfiguration(null);
        try (Ensemble ensemble = Ensemble.start(1, folder, lines, List.of(login + server))) {
            for (String socket : List.of("ClientCnxnSocketNIO", "ClientCnxnSocketNetty")) {
                ZKClientConfig config = new ZKClientConfig();
                config.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, "org.apache.zookeeper." + socket);
                // Clients of 3.9 refuse DIGEST-MD5 otherwise.
                config.setProperty("zookeeper.fips-mode", "false");
                surviveALoss(ensemble, ensemble.connectString(), "sasl-" + socket.toLowerCase(java.util.Locale.ROOT),
                        PromptReconnection.configure(config), List.of(ClientProcess.agent(""), login + client,
                                "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper." + socket));
            }
        } finally {
            System.clearProperty("java.security.auth.login.config");
            Configuration.setConfiguration(null);
        }
    }

    private static String jaas(String section, Map<String, String> entries) {
        StringBuilder text = new StringBuilder(section + " {\n"
                + "  org.apache.zookeeper.server.auth.DigestLoginModule required");
        entries.forEach((key, value) -> text.append("\n  ").append(key).append("=\"").append(value).append('"'));
        return text.append(";\n};\n").toString();
    }

    /** Both clients lose the server, and are back, authenticated and in the same session, once it is. */
    private void surviveALoss(Ensemble ensemble, String servers, String kind, ZKClientConfig config,
            List<String> options) throws Exception {
        try (ObservedClient ours = new ObservedClient(kind, servers, null, config);
                ClientProcess agent = new ClientProcess(kind + "-agent", "3.8.4", options, servers, folder)) {
            long before = Long.MIN_VALUE / 2 + System.nanoTime();
            agent.awaitConnection(before);
            ours.awaitConnection(before);
            long ourSession = ours.session();
            long agentSession = agent.session();
            ours.zooKeeper().exists("/", false);
            long killedAtNs = System.nanoTime();
            ensemble.kill(0);
            ensemble.restart(0);
            ours.awaitConnection(killedAtNs);
            agent.awaitConnection(killedAtNs);
            assertEquals(ourSession, ours.session());
            assertEquals(agentSession, agent.session());
            assertEquals(0, ours.zooKeeper().exists("/", false).getVersion());
            assertTrue(agentSaid(agent), agent.errors());
        }
    }

    private static boolean agentSaid(ClientProcess agent) throws IOException {
        return agent.errors().contains("zookeeper-3.8.4.jar reconnects promptly");
    }
}

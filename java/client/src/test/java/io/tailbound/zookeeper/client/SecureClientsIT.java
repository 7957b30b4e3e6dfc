package io.tailbound.zookeeper.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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

    private Path keyStore() throws Exception {
        Path store = folder.resolve("keys.p12");
        Path keytool = Path.of(System.getProperty("java.home"), "bin", "keytool");
        Process process = new ProcessBuilder(keytool.toString(), "-genkeypair", "-alias", "zk", "-keyalg", "EC",
                "-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1", "-validity", "2", "-storetype",
                "PKCS12", "-keystore", store.toString(), "-storepass", PASSWORD)
                .redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        return store;
    }

    private static List<String> tls(String prefix, Path store) {
        List<String> lines = new ArrayList<>();
        for (String kind : List.of("keyStore", "trustStore")) {
            lines.add(prefix + kind + ".location=" + store);
            lines.add(prefix + kind + ".password=" + PASSWORD);
            lines.add(prefix + kind + ".type=PKCS12");
        }
        return lines;
    }

    @Test
    void tls() throws Exception {
        Path store = keyStore();
        List<String> server = new ArrayList<>(tls("ssl.", store));
        server.add("secureClientPort=SECURE_PORT");
        server.add("serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory");
        try (Ensemble ensemble = Ensemble.start(1, folder, server, List.of())) {
            String servers = ensemble.secureConnectString();
            ZKClientConfig config = new ZKClientConfig();
            tls("zookeeper.ssl.", store).forEach(line -> config.setProperty(line.split("=")[0], line.split("=")[1]));
            config.setProperty("zookeeper.client.secure", "true");
            config.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, "ClientCnxnSocketNetty");
            PromptReconnection.configure(config);
            List<String> options = new ArrayList<>();
            tls("-Dzookeeper.ssl.", store).forEach(options::add);
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
        try (Ensemble ensemble = Ensemble.start(1, folder, lines, List.of(login + server))) {
            for (String socket : List.of("ClientCnxnSocketNIO", "ClientCnxnSocketNetty")) {
                ZKClientConfig config = new ZKClientConfig();
                config.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, "org.apache.zookeeper." + socket);
                surviveALoss(ensemble, ensemble.connectString(), "sasl-" + socket.toLowerCase(java.util.Locale.ROOT),
                        PromptReconnection.configure(config), List.of(ClientProcess.agent(""), login + client,
                                "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper." + socket));
            }
        } finally {
            System.clearProperty("java.security.auth.login.config");
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
            ours.awaitConnection(before);
            agent.awaitConnection(before);
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

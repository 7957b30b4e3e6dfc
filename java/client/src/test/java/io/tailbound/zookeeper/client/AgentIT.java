package io.tailbound.zookeeper.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The packaged agent in unmodified programs with ZooKeeper clients of several versions. */
@Timeout(500)
class AgentIT {
    private static final List<String> VERSIONS =
            List.of("3.5.10", "3.6.4", "3.7.2", "3.8.4", System.getProperty("tailbound.newest"));
    private static final int TRIALS = 9;

    @TempDir
    Path folder;

    @Test
    void clientsOfEveryKnownVersionReconnectSooner() throws Exception {
        List<ClientProcess> clients = new ArrayList<>();
        try (Ensemble ensemble = Ensemble.start(3, folder)) {
            try {
                String servers = ensemble.connectString();
                for (String version : VERSIONS) {
                    clients.add(new ClientProcess(
                            "agent, " + version, version, List.of(ClientProcess.agent("")), servers, folder));
                }
                clients.add(new ClientProcess("stock, 3.8.4", "3.8.4", List.of(), servers, folder));
                clients.add(new ClientProcess("stock, newest", VERSIONS.get(4), List.of(), servers, folder));
                loseServers(ensemble, clients);
                clients.subList(0, VERSIONS.size()).forEach(AgentIT::saysOnceWhatItChanged);
            } finally {
                for (ClientProcess client : clients) {
                    client.close();
                }
            }
        }
        compare(clients);
    }

    private static void loseServers(Ensemble ensemble, List<ClientProcess> clients) throws Exception {
        List<Long> sessions = new ArrayList<>();
        for (ClientProcess client : clients) {
            client.awaitConnection(Long.MIN_VALUE / 2 + System.nanoTime());
            sessions.add(client.session());
        }
        for (int trial = 0; trial < TRIALS; trial++) {
            int server = trial % 3;
            boolean all = ensemble.leads(server);
            List<ClientProcess> affected = new ArrayList<>();
            for (ClientProcess client : clients) {
                if (all || ensemble.serverAt(client.port()) == server) {
                    affected.add(client);
                }
            }
            long killedAtNs = System.nanoTime();
            ensemble.kill(server);
            for (ClientProcess client : affected) {
                client.reconnectionsNs.add(client.awaitConnection(killedAtNs) - killedAtNs);
            }
            ensemble.restart(server);
        }
        for (ClientProcess client : clients) {
            assertEquals(sessions.get(clients.indexOf(client)), client.session(), client.kind + " lost its session");
        }
    }

    private static void saysOnceWhatItChanged(ClientProcess client) {
        try {
            List<String> lines = client.errors().lines()
                    .filter(line -> line.startsWith("tailbound-zookeeper-client: ")).toList();
            assertEquals(1, lines.size(), client.kind + ": " + lines);
            String version = client.kind.substring("agent, ".length());
            assertTrue(lines.get(0).contains("zookeeper-" + version + ".jar reconnects promptly"), lines.get(0));
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static void compare(List<ClientProcess> clients) {
        List<Long> agent = new ArrayList<>();
        List<Long> stock = new ArrayList<>();
        for (ClientProcess client : clients) {
            assertFalse(client.reconnectionsNs.isEmpty(), client.kind + " never lost its server");
            System.out.println(ObservedClient.row(client.kind, client.reconnectionsNs));
            (client.kind.startsWith("agent") ? agent : stock).addAll(client.reconnectionsNs);
        }
        System.out.println(ObservedClient.row("agent, all", agent));
        System.out.println(ObservedClient.row("stock, all", stock));
        assertTrue(agent.size() >= 10, "too few reconnections to compare");
        assertTrue(ObservedClient.medianNs(agent) < ObservedClient.medianNs(stock),
                "clients with the agent are not sooner back than stock ones");
    }

    /** Wrong options are said, and the program runs with the client as it is. */
    @Test
    void whatItCannotDoItSaysAndTheProgramRuns() throws Exception {
        try (Ensemble ensemble = Ensemble.start(1, folder)) {
            String servers = ensemble.connectString();
            says(List.of(ClientProcess.agent("retri=50ms")), servers, "unknown option `retri`");
            says(List.of(ClientProcess.agent(""), "-Dtailbound.reconnect=retry=fast"), servers, "`fast` is no duration");
            says(List.of(ClientProcess.agent(""), "-Dtailbound.reconnect=retry=20ms"), servers, "retry=20ms");
        }
    }

    private void says(List<String> options, String servers, String what) throws Exception {
        String kind = "with " + options.hashCode();
        try (ClientProcess client = new ClientProcess(kind, "3.8.4", options, servers, folder)) {
            client.awaitConnection(Long.MIN_VALUE / 2 + System.nanoTime());
            assertTrue(client.errors().contains("tailbound-zookeeper-client: "), client.errors());
            assertTrue(client.errors().contains(what), client.errors());
            assertEquals(1, client.errors().lines().filter(line -> line.startsWith("tailbound")).count());
        }
    }
}

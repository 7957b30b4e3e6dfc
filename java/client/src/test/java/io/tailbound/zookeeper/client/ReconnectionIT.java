package io.tailbound.zookeeper.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.client.ZKClientConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Clients of every kind lose the same servers of a real ensemble, in one run. */
@Timeout(500)
class ReconnectionIT {
    private static final int TRIALS = 12;

    @TempDir
    Path folder;

    @Test
    void promptClientsKeepTheirSessionsAndReconnectSooner() throws Exception {
        List<ObservedClient> clients = new ArrayList<>();
        try (Ensemble ensemble = Ensemble.start(3, folder)) {
            String servers = ensemble.connectString();
            try {
                open(clients, servers);
                List<Long> sessions = new ArrayList<>();
                for (ObservedClient client : clients) {
                    client.awaitConnection(Long.MIN_VALUE / 2 + System.nanoTime());
                    client.zooKeeper().create("/" + client.session(), client.kind.getBytes(StandardCharsets.UTF_8),
                            Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
                    sessions.add(client.session());
                }
                for (int trial = 0; trial < TRIALS; trial++) {
                    loseServer(ensemble, clients, trial % 3);
                }
                for (ObservedClient client : clients) {
                    assertEquals(sessions.get(clients.indexOf(client)), client.session(), client.kind);
                    assertArrayEquals(client.kind.getBytes(StandardCharsets.UTF_8),
                            client.zooKeeper().getData("/" + client.session(), false, null), client.kind);
                }
            } finally {
                for (ObservedClient client : clients) {
                    client.close();
                }
            }
        }
        compare(clients);
    }

    private static void open(List<ObservedClient> clients, String servers) throws Exception {
        clients.add(ObservedClient.withSocket("stock NIO", servers, "ClientCnxnSocketNIO"));
        clients.add(ObservedClient.withSocket("stock Netty", servers, "ClientCnxnSocketNetty"));
        clients.add(ObservedClient.withSocket("socket class NIO", servers, "PromptClientCnxnSocketNIO"));
        clients.add(ObservedClient.withSocket("socket class Netty", servers, "PromptClientCnxnSocketNetty"));
        clients.add(new ObservedClient(
                "host provider", servers, PromptHostProvider.of(servers), new ZKClientConfig()));
        clients.add(new ObservedClient("host provider and configuration", servers, PromptHostProvider.of(servers),
                PromptReconnection.configure(new ZKClientConfig())));
    }

    private static void loseServer(Ensemble ensemble, List<ObservedClient> clients, int server) throws Exception {
        boolean all = ensemble.leads(server);
        List<ObservedClient> affected = new ArrayList<>();
        for (ObservedClient client : clients) {
            client.awaitConnection(Long.MIN_VALUE / 2 + System.nanoTime());
            if (all || ensemble.serverAt(client.port()) == server) {
                affected.add(client);
            }
        }
        long killedAtNs = System.nanoTime();
        ensemble.kill(server);
        for (ObservedClient client : affected) {
            client.reconnectionsNs.add(client.awaitConnection(killedAtNs) - killedAtNs);
        }
        ensemble.restart(server);
    }

    private static void compare(List<ObservedClient> clients) {
        clients.forEach(client -> System.out.println(ObservedClient.row(client.kind, client.reconnectionsNs)));
        List<Long> stock = new ArrayList<>(clients.get(0).reconnectionsNs);
        stock.addAll(clients.get(1).reconnectionsNs);
        List<Long> prompt = new ArrayList<>();
        for (ObservedClient client : clients.subList(2, clients.size())) {
            prompt.addAll(client.reconnectionsNs);
        }
        System.out.println(ObservedClient.row("stock, all", stock));
        System.out.println(ObservedClient.row("prompt, all", prompt));
        assertTrue(stock.size() >= 10 && prompt.size() >= 10, "too few reconnections to compare");
        assertTrue(ObservedClient.medianNs(prompt) < ObservedClient.medianNs(stock),
                "prompt clients are not sooner back than stock ones");
    }
}

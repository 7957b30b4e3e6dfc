package io.tailbound.zookeeper.harness.ensemble;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.tailbound.zookeeper.harness.client.HttpConnection;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** etcd servers, on the ports 2379 and 2380 of an address each. */
final class EtcdEnsemble extends Ensemble {
    private static final int CLIENT_PORT = 2379;
    private static final int PEER_PORT = 2380;
    private static final int ANSWER_TIMEOUT_MS = 500;
    private static final ObjectMapper JSON = new ObjectMapper();

    EtcdEnsemble(Setup setup) {
        super(setup);
    }

    @Override
    public InetSocketAddress clientAddress(int id) {
        return new InetSocketAddress(setup().placement().site(id).host(), CLIENT_PORT);
    }

    private String url(int id, int port) {
        return "http://" + setup().placement().site(id).host() + ":" + port;
    }

    @Override
    void prepare(int id) {
        // Everything is an argument.
    }

    @Override
    List<String> command(int id) {
        String members =
                IntStream.rangeClosed(1, size())
                        .mapToObj(peer -> "s" + peer + "=" + url(peer, PEER_PORT))
                        .collect(Collectors.joining(","));
        List<String> command = new ArrayList<>(List.of("etcd", "--name=s" + id));
        command.add("--data-dir=" + serverFolder(id).resolve("data"));
        command.add("--listen-client-urls=" + url(id, CLIENT_PORT));
        command.add("--advertise-client-urls=" + url(id, CLIENT_PORT));
        command.add("--listen-peer-urls=" + url(id, PEER_PORT));
        command.add("--initial-advertise-peer-urls=" + url(id, PEER_PORT));
        command.add("--initial-cluster=" + members);
        command.addAll(setup().variant().config());
        return command;
    }

    @Override
    Map<String, String> environment(int id) {
        return Map.of();
    }

    @Override
    Role role(int id) {
        try (HttpConnection connection =
                HttpConnection.open(clientAddress(id), ANSWER_TIMEOUT_MS)) {
            JsonNode status = JSON.readTree(connection.post("/v3/maintenance/status", "{}"));
            String leader = status.path("leader").asText("0");
            if (leader.equals("0") || leader.isEmpty()) {
                return Role.OUT_OF_SERVICE;
            }
            String own = status.path("header").path("member_id").asText();
            return leader.equals(own) ? Role.LEADS : Role.FOLLOWS;
        } catch (IOException down) {
            return Role.OUT_OF_SERVICE;
        }
    }
}

package io.tailbound.zookeeper.harness.history;

import io.tailbound.zookeeper.harness.ensemble.Placement;
import io.tailbound.zookeeper.harness.ensemble.Site;
import io.tailbound.zookeeper.harness.process.Tool;
import java.io.IOException;
import java.util.List;

/**
 * A network namespace for every server, joined by a bridge, with links that can be cut.
 *
 * <p>Needs a private network and mount namespace around this process ({@code unshare --net --mount}):
 * with its last process everything is gone, however that ends. A cut replaces the peer's hardware
 * address by one that nobody has, in both directions: packets leave and never arrive, and no socket
 * gets an error, as with a cable that was pulled.
 */
final class Links implements Placement {
    private static final String NETWORK = "10.77.0.";
    private static final int CLIENTS = 254;
    private static final String NOBODY = "02:00:00:00:00:01";

    private final int servers;

    private Links(int servers) {
        this.servers = servers;
    }

    /**
     * Builds the network.
     *
     * @throws IOException if the kernel or the privileges do not allow it
     */
    static Links build(int servers) throws IOException {
        Tool.run("ip", "link", "add", "br0", "type", "bridge");
        Tool.run("ip", "addr", "add", NETWORK + CLIENTS + "/24", "dev", "br0");
        Tool.run("ip", "link", "set", "br0", "up");
        for (int id = 1; id <= servers; id++) {
            String space = "s" + id;
            String port = "port" + id;
            Tool.run("ip", "netns", "add", space);
            Tool.run(
                    "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns",
                    space);
            Tool.run("ip", "link", "set", port, "master", "br0", "up");
            Tool.run("ip", "-n", space, "link", "set", "lo", "up");
            Tool.run("ip", "-n", space, "addr", "add", NETWORK + id + "/24", "dev", "eth0");
            Tool.run("ip", "-n", space, "link", "set", "eth0", "up");
        }
        return new Links(servers);
    }

    @Override
    public Site site(int id) {
        return new Site(NETWORK + id, List.of("ip", "netns", "exec", "s" + id));
    }

    /** Cuts the link between two servers. */
    void cut(int one, int other) throws IOException {
        lose(one, other);
        lose(other, one);
    }

    private static void lose(int from, int to) throws IOException {
        Tool.run(
                "ip", "-n", "s" + from, "neigh", "replace", NETWORK + to, "lladdr", NOBODY, "dev",
                "eth0", "nud", "permanent");
    }

    /** Cuts a server from all others; clients still reach it. */
    void isolate(int id) throws IOException {
        for (int peer = 1; peer <= servers; peer++) {
            if (peer != id) {
                cut(id, peer);
            }
        }
    }

    /** Joins everything again. */
    void heal() throws IOException {
        for (int id = 1; id <= servers; id++) {
            Tool.run("ip", "-n", "s" + id, "neigh", "flush", "dev", "eth0", "nud", "permanent");
        }
    }

    @Override
    public void close() {
        // The namespaces end with the process that they were made for.
    }
}

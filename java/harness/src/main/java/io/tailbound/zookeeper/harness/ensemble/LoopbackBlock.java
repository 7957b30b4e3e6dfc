package io.tailbound.zookeeper.harness.ensemble;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.List;
import java.util.SplittableRandom;

/**
 * A block 127.x.y.0/24 of the loopback network for one ensemble: its servers use the well-known ports,
 * each on an address of its own. No port is searched for, and no connection of a client can take the
 * port of a server that is down, as it could on 127.0.0.1.
 */
public final class LoopbackBlock implements Placement {
    private static final int TRIES = 100;
    private static final int CLAIM_PORT = 2181;

    private final String prefix;
    private final ServerSocket claim;

    private LoopbackBlock(String prefix, ServerSocket claim) {
        this.prefix = prefix;
        this.claim = claim;
    }

    /**
     * Claims a block that no other harness on this machine holds, by listening on its last address.
     *
     * @throws IOException if none is free
     */
    public static LoopbackBlock claim() throws IOException {
        SplittableRandom random = new SplittableRandom();
        IOException last = null;
        for (int attempt = 0; attempt < TRIES; attempt++) {
            String prefix = "127." + random.nextInt(64, 192) + "." + random.nextInt(256) + ".";
            ServerSocket socket = new ServerSocket();
            try {
                InetAddress address = InetAddress.getByName(prefix + "254");
                socket.bind(new InetSocketAddress(address, CLAIM_PORT));
                return new LoopbackBlock(prefix, socket);
            } catch (IOException taken) {
                socket.close();
                last = taken;
            }
        }
        throw new IOException("no free block of loopback addresses", last);
    }

    @Override
    public Site site(int id) {
        return new Site(prefix + id, List.of());
    }

    @Override
    public void close() {
        try {
            claim.close();
        } catch (IOException alreadyClosed) {
            // Nothing is held any more.
        }
    }
}

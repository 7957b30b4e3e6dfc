package io.tailbound.zookeeper.harness.client;

import java.io.IOException;

/** The ensemble no longer knows the session. */
public final class SessionExpired extends IOException {
    private static final long serialVersionUID = 1;

    SessionExpired(long id) {
        super("session 0x" + Long.toHexString(id) + " has expired");
    }
}

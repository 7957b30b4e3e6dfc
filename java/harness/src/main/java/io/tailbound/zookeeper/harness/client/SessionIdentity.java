package io.tailbound.zookeeper.harness.client;

/**
 * What a client keeps of its session between connections.
 *
 * @param id 0 asks for a new session
 * @param password what the server gave with the session
 * @param timeoutMs session timeout: asked for, or negotiated once there is a session
 */
public record SessionIdentity(long id, byte[] password, int timeoutMs) {
    private static final int PASSWORD_BYTES = 16;

    /** Asks for a new session. */
    public static SessionIdentity fresh(int timeoutMs) {
        return new SessionIdentity(0, new byte[PASSWORD_BYTES], timeoutMs);
    }
}

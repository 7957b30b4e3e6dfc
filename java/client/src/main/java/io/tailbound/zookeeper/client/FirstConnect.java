package io.tailbound.zookeeper.client;

import java.lang.reflect.Field;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a client from waiting up to a second before it connects again.
 *
 * <p>{@code ClientCnxn.SendThread.startConnect} waits unless its field {@code isFirstConnect} is set,
 * and uses that field for nothing else (ZooKeeper 3.5 to 3.9). A client asks its host provider for a
 * server on that very thread right before, which is when we set it again.
 */
final class FirstConnect {
    private static final Logger LOG = LoggerFactory.getLogger(FirstConnect.class);
    private static final String SEND_THREAD = "org.apache.zookeeper.ClientCnxn$SendThread";
    private static final AtomicBoolean TOLD = new AtomicBoolean();

    private FirstConnect() {}

    /**
     * Makes the next connection of a client count as its first; does nothing on other threads.
     *
     * @return whether the client will connect without a wait of its own
     */
    static boolean restore(Thread thread) {
        if (!thread.getClass().getName().equals(SEND_THREAD)) {
            return false;
        }
        try {
            Field field = thread.getClass().getDeclaredField("isFirstConnect");
            field.setAccessible(true);
            field.setBoolean(thread, true);
            return true;
        } catch (ReflectiveOperationException | RuntimeException e) {
            if (TOLD.compareAndSet(false, true)) {
                LOG.warn("This version of ZooKeeper is not known: its client still waits a random time of up to "
                        + "a second before each reconnection", e);
            }
            return false;
        }
    }
}

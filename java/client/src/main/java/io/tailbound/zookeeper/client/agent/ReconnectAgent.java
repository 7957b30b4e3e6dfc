package io.tailbound.zookeeper.client.agent;

import io.tailbound.zookeeper.client.pace.ClientPace;
import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import java.lang.instrument.Instrumentation;

/**
 * Makes the ZooKeeper clients of an unmodified program reconnect promptly:
 * {@code java -javaagent:tailbound-zookeeper-client.jar=retry=50ms ...}.
 *
 * <p>It never stops the program: what it cannot do it says on standard error, and leaves the client
 * as it is.
 */
public final class ReconnectAgent {
    private ReconnectAgent() {}

    /**
     * Called by the virtual machine before the program starts.
     *
     * @param arguments options as {@link ReconnectOptions} reads them; none for the system property's
     */
    public static void premain(String arguments, Instrumentation instrumentation) {
        Report report = new Report(System.err);
        try {
            ReconnectOptions options = arguments == null || arguments.trim().isEmpty()
                    ? ReconnectOptions.fromSystemProperty()
                    : ReconnectOptions.parse(arguments);
            ClientPace.configure(options);
            instrumentation.addTransformer(new ClientTransformer(options, report));
        } catch (IllegalArgumentException e) {
            report.say("agent options: " + e.getMessage() + ". ZooKeeper clients are left as they are.");
        }
    }
}

package io.tailbound.zookeeper.client.agent;

import java.io.PrintStream;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What the agent tells the user: one line for each fact, once, however many clients there are. */
final class Report {
    private final PrintStream stream;
    private final Set<String> said = ConcurrentHashMap.newKeySet();

    Report(PrintStream stream) {
        this.stream = stream;
    }

    /** Prints a line unless it was printed before. */
    void say(String line) {
        if (said.add(line)) {
            stream.println("tailbound-zookeeper-client: " + line);
        }
    }
}

package io.tailbound.zookeeper.harness.process;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;

/**
 * Sends signals to process groups through one waiting shell, so that a signal costs a pipe's write
 * and not the start of a program: the time of a fault is known to a fraction of a millisecond.
 */
final class Signals {
    private static final String LOOP =
            "while read -r signal group; do"
                    + " if kill -s \"$signal\" -- \"-$group\" 2>/dev/null; then echo sent; else echo no; fi;"
                    + " done";
    private static Signals shared;

    private final Writer orders;
    private final BufferedReader answers;

    private Signals() throws IOException {
        // A session of its own: a Ctrl-C on the terminal must not take it from the clean-up.
        Process shell = Spawner.start(new ProcessBuilder("setsid", "sh", "-c", LOOP));
        orders = new OutputStreamWriter(shell.getOutputStream(), StandardCharsets.US_ASCII);
        answers =
                new BufferedReader(
                        new InputStreamReader(shell.getInputStream(), StandardCharsets.US_ASCII));
    }

    /**
     * Signals a process group.
     *
     * @param signal name without SIG
     * @param group the group, which is the pid of its first process
     * @return whether there was such a group
     * @throws IOException if the shell is gone
     */
    static synchronized boolean send(String signal, long group) throws IOException {
        if (shared == null) {
            shared = new Signals();
        }
        shared.orders.write(signal + " " + group + "\n");
        shared.orders.flush();
        String answer = shared.answers.readLine();
        if (answer == null) {
            throw new IOException("the shell that sends signals has ended");
        }
        return answer.equals("sent");
    }
}

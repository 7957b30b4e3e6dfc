package io.tailbound.zookeeper.harness.result;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicBoolean;

/** A long run of trials, whose result is written also when it is ended before its end. */
public interface Campaign {
    /** Makes all trials. */
    void run() throws IOException, InterruptedException;

    /**
     * Writes and prints the result of the trials made so far.
     *
     * @param complete whether these are all
     */
    void finish(boolean complete) throws IOException;

    /** Whether anything failed, so that the exit status has to tell. */
    boolean failed();

    /** How a campaign is made from its arguments. */
    @FunctionalInterface
    interface Maker {
        /** Makes it; an argument that is wrong is an {@link IllegalArgumentException}. */
        Campaign make(String[] arguments) throws IOException;
    }

    /**
     * Makes a campaign, runs it and ends this JVM: 0 if all went well, 1 if not. If the JVM is ended
     * from outside, a shutdown hook writes what there is.
     *
     * @param name what messages begin with
     */
    static void main(String name, Maker maker, String[] arguments) {
        AtomicBoolean finished = new AtomicBoolean();
        try {
            Campaign campaign = maker.make(arguments);
            Thread hook = new Thread(() -> finishEarly(name, campaign, finished), "finish");
            Runtime.getRuntime().addShutdownHook(hook);
            campaign.run();
            if (finished.compareAndSet(false, true)) {
                campaign.finish(true);
            }
            System.exit(campaign.failed() ? 1 : 0);
        } catch (IllegalArgumentException | IOException wrong) {
            System.err.println(name + ": " + wrong.getMessage());
            System.exit(1);
        } catch (InterruptedException ended) {
            // The hooks write what there is and end the servers.
            Thread.currentThread().interrupt();
        }
    }

    private static void finishEarly(String name, Campaign campaign, AtomicBoolean finished) {
        if (!finished.compareAndSet(false, true)) {
            return;
        }
        try {
            campaign.finish(false);
        } catch (IOException failed) {
            System.err.println(name + ": " + failed.getMessage());
        }
    }
}

package io.tailbound.examples.kafka;

import java.io.IOException;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Measures what one fault does to a healthy cluster, and leaves the repair to its caller. */
interface Experiment {
    /** How long a trial waits for what must come back, in nanoseconds. */
    long LIMIT_NS = TimeUnit.SECONDS.toNanos(60);

    /** How long a cluster is left alone before a fault, in milliseconds. */
    int QUIET_MS = 500;

    /** The fault's phase against the servers' own ticks is drawn from this range, in milliseconds. */
    int PHASE_MS = 300;

    /** Lets the fault happen once. */
    Outcome run(KafkaCluster cluster, SplittableRandom random)
            throws IOException, InterruptedException, TimeoutException;

    /** Waits for the moment of the fault. */
    static void pause(SplittableRandom random) throws InterruptedException {
        Thread.sleep(QUIET_MS + random.nextInt(PHASE_MS));
    }
}

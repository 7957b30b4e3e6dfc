package io.tailbound.examples.kafka;

import java.io.IOException;
import java.util.SplittableRandom;
import java.util.concurrent.TimeoutException;

/**
 * Creates a topic in peace, and another one at the moment when the ZooKeeper leader is killed: the
 * signal is sent right before the request, so that the request meets a cluster without ZooKeeper. From
 * the request until there is the topic (thesis, section 5.5.2).
 *
 * <p>A broker whose session ends meanwhile refuses the request, which is then made again at once.
 */
final class TopicCreation implements Experiment {
    private int created;

    @Override
    public Outcome run(KafkaCluster cluster, SplittableRandom random)
            throws IOException, InterruptedException, TimeoutException {
        int leader = cluster.awaitHealthy();
        Experiment.pause(random);
        long begin = System.nanoTime();
        cluster.topics().create(name(random));
        long undisturbedNs = System.nanoTime() - begin;
        Experiment.pause(random);
        Observation observation = new Observation(cluster);
        cluster.strikeServer(leader);
        begin = System.nanoTime();
        long refusals = cluster.topics().create(name(random));
        long disturbedNs = System.nanoTime() - begin;
        return new Outcome()
                .measure("undisturbed", undisturbedNs)
                .measure("leader_killed", disturbedNs)
                .count("refusals", refusals)
                .count("expired_sessions", observation.expirations());
    }

    private String name(SplittableRandom random) {
        return "created-" + created++ + "-" + Long.toHexString(random.nextLong());
    }
}

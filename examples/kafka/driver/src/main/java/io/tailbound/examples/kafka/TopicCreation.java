package io.tailbound.examples.kafka;

import java.io.IOException;
import java.util.SplittableRandom;
import java.util.concurrent.TimeoutException;

/**
 * Creates a topic in peace, and another one at the moment when the ZooKeeper leader is killed: the
 * signal is sent right before the request, so that the request meets a cluster without ZooKeeper. From
 * the request to its answer (thesis, section 5.5.2).
 */
final class TopicCreation implements Experiment {
    private int created;

    @Override
    public Outcome run(KafkaCluster cluster, SplittableRandom random)
            throws IOException, InterruptedException, TimeoutException {
        int leader = cluster.awaitHealthy();
        Experiment.pause(random);
        long undisturbed = create(cluster, random);
        Experiment.pause(random);
        cluster.strikeServer(leader);
        long disturbed = create(cluster, random);
        return new Outcome().measure("undisturbed", undisturbed).measure("leader_killed", disturbed);
    }

    private long create(KafkaCluster cluster, SplittableRandom random)
            throws InterruptedException, TimeoutException {
        String name = "created-" + created++ + "-" + Long.toHexString(random.nextLong());
        long begin = System.nanoTime();
        cluster.topics().create(name);
        return System.nanoTime() - begin;
    }
}

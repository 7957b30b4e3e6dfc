package io.tailbound.zookeeper.harness.history;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;

/**
 * The znodes of a run. A few are in use at a time, each for some operations: a history of one znode
 * stays short enough to be checked, and what an operation met in a failure is met by the next ones.
 */
final class Keys {
    static final String PARENT = "/history";
    private static final int IN_USE = 3;
    private static final int OPERATIONS_EACH = 60;

    private final int count;
    private final AtomicLong drawn = new AtomicLong();

    Keys(int count) {
        this.count = count;
    }

    /** A znode for the next operation; {@code choice} picks among those in use. */
    String next(int choice) {
        long group = drawn.getAndIncrement() / (IN_USE * OPERATIONS_EACH);
        return path((group * IN_USE + Math.floorMod(choice, IN_USE)) % count);
    }

    /** All znodes. */
    List<String> all() {
        return IntStream.range(0, count).mapToObj(Keys::path).toList();
    }

    private static String path(long number) {
        return PARENT + "/k" + number;
    }
}

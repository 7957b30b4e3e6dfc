package io.tailbound.examples.elearning;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The time-stamped table of responses in the database. Requests only put their response into a bounded queue; a
 * thread of its own writes what has come together.
 */
final class ResponseTable implements AutoCloseable {
    /**
     * The fate of responses.
     *
     * @param written the number of rows in the database
     * @param dropped the number of responses without a row: the queue was full, or the database refused them
     */
    record Rows(long written, long dropped) {
        /** Of an application whose table is off. */
        static final Rows NONE = new Rows(0, 0);
    }

    private static final int QUEUE = 20_000;
    private static final int BATCH = 1000;

    private final BlockingQueue<Response> queue = new ArrayBlockingQueue<>(QUEUE);
    private final AtomicLong written = new AtomicLong();
    private final AtomicLong dropped = new AtomicLong();
    private final CountDownLatch closing = new CountDownLatch(1);
    private final RowBatch batch;
    private final long pauseMs;
    private final Thread writer;

    /** A table that is written by {@code batch}, with a pause between batches. */
    ResponseTable(RowBatch batch, long pauseMs) {
        this.batch = batch;
        this.pauseMs = pauseMs;
        this.writer = new Thread(this::writeUntilClosed, "response-table");
        writer.setDaemon(true);
        writer.start();
    }

    /** Never waits. */
    void add(Response response) {
        if (!queue.offer(response)) {
            dropped.incrementAndGet();
        }
    }

    Rows rows() {
        return new Rows(written.get(), dropped.get());
    }

    private void writeUntilClosed() {
        try {
            // More comes together during the pause: one transaction for many responses.
            while (!closing.await(pauseMs, TimeUnit.MILLISECONDS)) {
                writeRest();
            }
        } catch (InterruptedException ended) {
            // As at the end.
        }
        writeRest();
    }

    private void writeRest() {
        for (Response next = queue.poll(); next != null; next = queue.poll()) {
            write(next);
        }
    }

    /** Writes a response, and more that wait. */
    private void write(Response first) {
        List<Response> responses = new ArrayList<>(List.of(first));
        queue.drainTo(responses, BATCH - 1);
        try {
            batch.write(responses);
            written.addAndGet(responses.size());
        } catch (SQLException refused) {
            dropped.addAndGet(responses.size());
        }
    }

    /** Writes the responses that wait, and ends. No interruption: it would close a connection amid a batch. */
    @Override
    public void close() throws InterruptedException {
        closing.countDown();
        writer.join(TimeUnit.SECONDS.toMillis(10));
    }
}

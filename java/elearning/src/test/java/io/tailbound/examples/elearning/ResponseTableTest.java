package io.tailbound.examples.elearning;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ResponseTableTest {
    /** Longer than any test takes: nothing is written before the end. */
    private static final long PAUSE_MS = TimeUnit.HOURS.toMillis(1);

    private static Response response(int number) {
        return new Response(RequestKind.POSITION, number, 1, 200);
    }

    @Test
    void responsesAreWrittenTogetherAndInTheirOrder() throws InterruptedException {
        BlockingQueue<List<Response>> batches = new LinkedBlockingQueue<>();
        ResponseTable table = new ResponseTable(batches::add, PAUSE_MS);
        for (int i = 0; i < 2500; i++) {
            table.add(response(i));
        }
        table.close();
        assertEquals(new ResponseTable.Rows(2500, 0), table.rows());
        assertEquals(List.of(1000, 1000, 500), batches.stream().map(List::size).toList());
        List<Response> all = batches.stream().flatMap(List::stream).toList();
        for (int i = 0; i < all.size(); i++) {
            assertEquals(i, all.get(i).endUs());
        }
    }

    @Test
    void aDatabaseThatRefusesCostsRowsAndNothingElse() throws InterruptedException {
        ResponseTable table = new ResponseTable(
                responses -> {
                    throw new SQLException("away");
                },
                PAUSE_MS);
        table.add(response(1));
        table.add(response(2));
        table.close();
        assertEquals(new ResponseTable.Rows(0, 2), table.rows());
    }

    @Test
    void addingNeverWaitsForTheDatabase() throws InterruptedException {
        CountDownLatch writing = new CountDownLatch(1);
        CountDownLatch released = new CountDownLatch(1);
        ResponseTable table = new ResponseTable(
                responses -> {
                    writing.countDown();
                    try {
                        released.await();
                    } catch (InterruptedException ended) {
                        throw new SQLException(ended);
                    }
                },
                1);
        table.add(response(0));
        writing.await();
        for (int i = 0; i < 30_000; i++) {
            table.add(response(i));
        }
        assertTrue(table.rows().dropped() > 0);
        released.countDown();
        table.close();
        assertEquals(30_001, table.rows().written() + table.rows().dropped());
    }
}

package io.tailbound.examples.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Lines as brokers of Kafka 3.9 log them. */
class SessionEventsTest {
    private static final String CLIENT = " DEBUG ZooKeeperClient - [ZooKeeperClient Kafka server] Received event: ";

    private static String line(String time, String state) {
        return "2026-11-22T" + time + CLIENT + "WatchedEvent state:" + state + " type:None path:null zxid: -1\n";
    }

    @Test
    void aReconnectionIsTheFirstConnectionAfterTheLoss() {
        SessionEvents events = SessionEvents.parse(
                line("01:00:00.000", "SyncConnected") + "2026-11-22T01:00:00.100 INFO  other - words\n"
                        + line("01:00:01.000", "Disconnected") + line("01:00:01.250", "SyncConnected")
                        + line("01:00:02.000", "SyncConnected"));
        assertEquals(250, events.backAtMs().orElseThrow() - events.lostAtMs().orElseThrow());
        assertEquals(0, events.expirations());
    }

    @Test
    void anEndedSessionIsNoConnection() {
        SessionEvents events = SessionEvents.parse(
                line("01:00:01.000", "Disconnected") + line("01:00:01.250", "Expired")
                        + line("01:00:01.300", "SyncConnected"));
        assertEquals(300, events.backAtMs().orElseThrow() - events.lostAtMs().orElseThrow());
        assertEquals(1, events.expirations());
    }

    @Test
    void watchesOfNodesAreNoConnections() {
        String node = "2026-11-22T01:00:02.000" + CLIENT
                + "WatchedEvent state:SyncConnected type:NodeDeleted path:/controller zxid: 4\n";
        assertTrue(SessionEvents.parse(line("01:00:01.000", "Disconnected") + node).backAtMs().isEmpty());
    }

    @Test
    void aLineThatIsBeingWrittenIsLeftForLater() {
        String half = line("01:00:01.250", "SyncConnected").strip();
        SessionEvents events = SessionEvents.parse(line("01:00:01.000", "Disconnected") + half);
        assertTrue(events.backAtMs().isEmpty());
    }
}

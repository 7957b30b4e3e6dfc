package io.tailbound.examples.kafka;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a broker's ZooKeeper client went through, as the broker logs it: Kafka is not modified, and its
 * log is as exact as a millisecond.
 */
final class SessionEvents {
    /** The state of a client that has lost its server. */
    static final String LOST = "Disconnected";

    /** The state of a client that has a server. */
    static final String CONNECTED = "SyncConnected";

    /** The state of a client whose session has ended. */
    static final String EXPIRED = "Expired";

    private static final Pattern LINE =
            Pattern.compile("^(\\S+) .*Received event: WatchedEvent state:(\\w+) type:None.*");

    /**
     * One change of state.
     *
     * @param atMs when, in milliseconds of the wall clock
     * @param state as ZooKeeper names it
     */
    record Event(long atMs, String state) {}

    private final List<Event> events;

    private SessionEvents(List<Event> events) {
        this.events = events;
    }

    /**
     * Reads a part of a log; a last line that is not complete yet is left out.
     *
     * @param from where the part begins, in bytes
     */
    static SessionEvents read(Path log, long from) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(log.toFile(), "r")) {
            byte[] bytes = new byte[Math.toIntExact(Math.max(file.length() - from, 0))];
            file.seek(from);
            file.readFully(bytes);
            return parse(new String(bytes, StandardCharsets.UTF_8));
        }
    }

    static SessionEvents parse(String text) {
        List<Event> events = new ArrayList<>();
        int complete = text.lastIndexOf('\n') + 1;
        text.substring(0, complete).lines().forEach(line -> {
            Matcher matcher = LINE.matcher(line);
            if (matcher.matches()) {
                LocalDateTime time = LocalDateTime.parse(matcher.group(1));
                events.add(new Event(time.toInstant(ZoneOffset.UTC).toEpochMilli(), matcher.group(2)));
            }
        });
        return new SessionEvents(events);
    }

    /** When the connection was first lost, in milliseconds of the wall clock. */
    OptionalLong lostAtMs() {
        return events.stream()
                .filter(event -> event.state().equals(LOST))
                .mapToLong(Event::atMs)
                .findFirst();
    }

    /** When there was first a connection again after the loss, in milliseconds of the wall clock. */
    OptionalLong backAtMs() {
        int loss = 0;
        while (loss < events.size() && !events.get(loss).state().equals(LOST)) {
            loss++;
        }
        return events.stream()
                .skip(loss)
                .filter(event -> event.state().equals(CONNECTED))
                .mapToLong(Event::atMs)
                .findFirst();
    }

    /** How many sessions ended. */
    long expirations() {
        return events.stream().filter(event -> event.state().equals(EXPIRED)).count();
    }
}

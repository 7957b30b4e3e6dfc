package io.tailbound.zookeeper.client.pace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class ReconnectScheduleTest {
    private static final long MS = 1_000_000;

    /** The instants of the attempts of one client whose every attempt fails at once. */
    static List<Long> attempts(ReconnectOptions options, int servers, long lengthNs, long seed) {
        ReconnectSchedule schedule = new ReconnectSchedule(options, new SplittableRandom(seed));
        List<Long> instants = new ArrayList<>();
        for (long now = 0;;) {
            now += schedule.nextPauseNs(now, servers);
            if (now >= lengthNs) {
                return instants;
            }
            instants.add(now);
        }
    }

    @Test
    void everyOtherServerIsTriedAtOnceAndALostOneCostsNoPause() {
        ReconnectOptions options = ReconnectOptions.parse("jitter=0");
        assertEquals(List.of(0L, 0L, 50 * MS, 50 * MS, 100 * MS, 150 * MS, 150 * MS),
                attempts(options, 3, 151 * MS, 1));
        assertEquals(List.of(0L, 50 * MS, 100 * MS), attempts(options, 1, 101 * MS, 1));
        assertEquals(List.of(0L, 50 * MS, 50 * MS, 100 * MS, 100 * MS), attempts(options, 2, 101 * MS, 1));
    }

    @Test
    void aConnectionStartsItAnew() {
        ReconnectSchedule schedule = new ReconnectSchedule(ReconnectOptions.DEFAULT, new SplittableRandom(1));
        for (int loss = 0; loss < 3; loss++) {
            long now = loss * 60_000 * MS;
            assertEquals(0, schedule.nextPauseNs(now, 3));
            assertEquals(0, schedule.nextPauseNs(now, 3));
            assertTrue(schedule.nextPauseNs(now, 3) > 0);
            schedule.connected();
        }
    }

    @Test
    void pausesStayWithinTheirJitterAndFillIt() {
        ReconnectOptions options = ReconnectOptions.parse("jitter=0.5,persist=3600s");
        List<Long> instants = attempts(options, 1, 600_000 * MS, 7);
        long shortest = Long.MAX_VALUE;
        long longest = 0;
        for (int i = 1; i < instants.size(); i++) {
            long pause = instants.get(i) - instants.get(i - 1);
            shortest = Math.min(shortest, pause);
            longest = Math.max(longest, pause);
        }
        assertTrue(shortest >= 25 * MS && shortest < 26 * MS, "shortest " + shortest);
        assertTrue(longest <= 75 * MS && longest > 74 * MS, "longest " + longest);
    }

    @Test
    void theFirstAttemptIsSpreadIfAsked() {
        ReconnectOptions options = ReconnectOptions.parse("spread=20ms");
        SplittableRandom random = new SplittableRandom(3);
        long longest = 0;
        for (int i = 0; i < 1000; i++) {
            long pause = new ReconnectSchedule(options, random.split()).nextPauseNs(0, 3);
            assertTrue(pause <= 20 * MS);
            longest = Math.max(longest, pause);
        }
        assertTrue(longest > 19 * MS, "longest " + longest);
    }

    /** For many options and lists: the bound that the class states, and a slow pace at the end. */
    @Test
    void attemptsAreBoundedHoweverLongTheServiceIsDown() {
        SplittableRandom random = new SplittableRandom(11);
        for (int i = 0; i < 200; i++) {
            int servers = 1 + random.nextInt(7);
            long retryMs = 1 + random.nextInt(100);
            ReconnectOptions options = ReconnectOptions.parse("retry=" + retryMs + "ms,jitter=0." + random.nextInt(10)
                    + ",persist=" + random.nextInt(5) + "s,max=" + (retryMs + random.nextInt(2000)) + "ms");
            long lengthNs = 20_000 * MS;
            List<Long> instants = attempts(options, servers, lengthNs, i);
            long pauses = lengthNs / options.shortestPauseNs();
            long perPause = servers == 1 ? 1 : 2;
            assertTrue(instants.size() <= servers + perPause * pauses, options + ": " + instants.size());
            long previous = -1;
            for (int k = Math.max(1, servers - 1); k < instants.size(); k++) {
                if (servers == 1 || k % servers != 0) {
                    assertTrue(previous < 0 || instants.get(k) - instants.get(k - 1) >= options.shortestPauseNs());
                    assertTrue(instants.get(k) - instants.get(k - 1) <= Math.max(options.maxNs(), 2 * options.retryNs()));
                }
                previous = instants.get(k);
            }
        }
    }

    @Test
    void anOutageOfAnHourIsNotAskedTwentyTimesASecond() {
        int hour = attempts(ReconnectOptions.DEFAULT, 3, 3_600_000 * MS, 5).size();
        int atPace = attempts(ReconnectOptions.parse("persist=3600s"), 3, 3_600_000 * MS, 5).size();
        // The mean pause of decorrelated jitter with these options is about 0.4 s.
        assertTrue(hour * 6 < atPace, hour + " attempts of " + atPace);
    }
}

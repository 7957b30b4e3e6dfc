package io.tailbound.zookeeper.channel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.Test;

class SilenceTest {

  private static final long MS = 1_000_000L;
  private static final long TICK = 10 * MS;

  private final Silence silence = new Silence(500 * MS, 800 * MS, 10_000 * MS, 3, 3 * TICK, 0);
  private long now;

  private void ticks(long forNs) {
    for (long end = now + forNs; now < end; ) {
      now += TICK;
      silence.tick(now);
    }
  }

  private void beats(int count, long gapNs) {
    for (int i = 0; i < count; i++) {
      ticks(gapNs);
      silence.heard(now);
    }
  }

  @Test
  void aPeerThatStopsIsSuspectedAfterTheFloor() {
    beats(100, 50 * MS);
    ticks(500 * MS);
    assertFalse(silence.suspicious());
    ticks(TICK);
    assertTrue(silence.suspicious());
    silence.heard(now);
    assertFalse(silence.suspicious());
  }

  @Test
  void irregularHeartbeatsRaiseTheLimitAndRegularOnesLowerItAgain() {
    beats(10, 250 * MS);
    assertEquals(750 * MS, silence.limitNs());
    beats(10, 450 * MS);
    assertEquals(800 * MS, silence.limitNs(), "never above the longest timeout");
    beats(1_400, 50 * MS);
    assertEquals(500 * MS, silence.limitNs());
  }

  @Test
  void aStallOfTheWatcherItselfIsNoSilence() {
    beats(10, 50 * MS);
    now += 60_000 * MS;
    silence.tick(now);
    assertFalse(silence.suspicious());
    assertEquals(3 * TICK, silence.silentNs());
  }

  @Test
  void longHangsDoNotBlindTheWatcher() {
    beats(10, 50 * MS);
    beats(5, 5_000 * MS);
    assertEquals(500 * MS, silence.limitNs());
  }

  @Test
  void aPeerThatStallsAgainAndAgainIsGivenMoreTime() {
    beats(10, 50 * MS);
    beats(1, 900 * MS);
    assertEquals(625 * MS, silence.limitNs());
    beats(5, 900 * MS);
    assertFalse(silence.limitNs() < 900 * MS);
    for (int i = 0; i < 30; i++) {
      beats(1, silence.limitNs() + 2 * TICK);
    }
    assertEquals(10_000 * MS, silence.limitNs());
    beats(1_400, 50 * MS);
    assertEquals(500 * MS, silence.limitNs());
  }

  @Test
  void theLimitStaysBetweenFloorAndCeilingForAnyTimes() {
    Random random = new Random(7);
    for (int i = 0; i < 100_000; i++) {
      now += random.nextLong(1_000 * MS) - 200 * MS;
      if (random.nextInt(3) == 0) {
        silence.heard(now);
      } else {
        silence.tick(now);
      }
      assertTrue(silence.silentNs() >= 0);
      assertTrue(silence.limitNs() >= 500 * MS && silence.limitNs() <= 10_000 * MS);
    }
  }
}

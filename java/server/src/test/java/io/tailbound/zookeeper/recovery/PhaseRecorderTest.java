package io.tailbound.zookeeper.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.recovery.RecoveryRecorder.LossCause;
import io.tailbound.zookeeper.recovery.RecoveryRecorder.Role;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class PhaseRecorderTest {
  private final AtomicLong clock = new AtomicLong(1_000);
  private final List<Recovery> published = new ArrayList<>();
  private final PhaseRecorder recorder =
      new PhaseRecorder(
          2, () -> 3, "tailbound", clock::get, Runnable::run, List.of(published::add));

  private void after(long ns) {
    clock.addAndGet(ns);
  }

  private void recoverUntilServing() {
    recorder.leaderSign();
    after(7);
    recorder.leaderLost(LossCause.CLOSED);
    after(20);
    recorder.elected(Role.FOLLOWER, 3);
    after(30);
    recorder.connected();
    after(40);
    recorder.synchronised(5);
    after(50);
    recorder.serving();
  }

  @Test
  void phasesAddUp() {
    recoverUntilServing();
    after(60);
    recorder.firstWrite();
    assertEquals(
        List.of(
            new Recovery(
                1, 2, Role.FOLLOWER, 3, 5, LossCause.CLOSED, 1, 3, "tailbound", 7, 20, 30, 40, 50, 60)),
        published);
    assertEquals(207, published.get(0).totalNs());
    assertEquals(published, recorder.recent());
    recorder.firstWrite();
    assertEquals(1, published.size(), "later writes are not first ones");
  }

  @Test
  void theTimeWithoutAnyClientDoesNotCount() {
    recoverUntilServing();
    after(1_000_000);
    recorder.firstWrite(clock.get() - 11);
    assertEquals(11, published.get(0).firstWriteNs());
  }

  @Test
  void aWriteThatWaitedForTheServerCountsFromItsStart() {
    recoverUntilServing();
    after(9);
    recorder.firstWrite(clock.get() - 500);
    assertEquals(9, published.get(0).firstWriteNs());
  }

  @Test
  void timeSpentInVainGoesToTheElection() {
    recorder.leaderSign();
    recorder.leaderLost(LossCause.SILENT);
    after(10);
    recorder.elected(Role.FOLLOWER, 1);
    after(100);
    recorder.connected();
    after(100);
    recorder.leaderLost(LossCause.OTHER);
    after(10);
    recorder.elected(Role.LEADER, 2);
    after(1);
    recorder.connected();
    after(1);
    recorder.synchronised(8);
    after(1);
    recorder.serving();
    recorder.stop();
    Recovery recovery = published.get(0);
    assertEquals(2, recovery.rounds());
    assertEquals(220, recovery.electionNs());
    assertEquals(LossCause.SILENT, recovery.cause());
    assertEquals(Recovery.NO_WRITE, recovery.firstWriteNs());
    assertEquals(223, recovery.totalNs());
  }

  @Test
  void aRecoveryWithoutAWriteIsPublishedByTheNextOne() {
    recoverUntilServing();
    recoverUntilServing();
    assertEquals(1, published.size());
    assertEquals(Recovery.NO_WRITE, published.get(0).firstWriteNs());
    assertTrue(RecoveryJson.line(published.get(0)).contains("\"first_write_ns\":null"));
  }

  @Test
  void aStartHasNoDetection() {
    recorder.leaderSign();
    after(5);
    recorder.leaderLost(LossCause.STARTED);
    recorder.elected(Role.OBSERVER, 1);
    recorder.synchronised(1);
    recorder.serving();
    recorder.stop();
    assertEquals(0, published.get(0).detectionNs());
    assertEquals(0, published.get(0).connectionNs());
  }

  @Test
  void onlyTheLastOnesAreKept() {
    for (int i = 0; i < 40; i++) {
      recoverUntilServing();
      recorder.firstWrite();
    }
    assertEquals(RecoveryLog.KEPT, recorder.recent().size());
    assertEquals(40, recorder.recent().get(0).number());
  }

  @Test
  void callsInAnyOrderNeverBreakTheSums() {
    SplittableRandom random = new SplittableRandom(4);
    for (int i = 0; i < 50_000; i++) {
      after(random.nextInt(10));
      switch (random.nextInt(8)) {
        case 0 -> recorder.leaderSign();
        case 1 -> recorder.leaderLost(LossCause.values()[random.nextInt(5)]);
        case 2 -> recorder.elected(Role.values()[random.nextInt(3)], 1);
        case 3 -> recorder.connected();
        case 4 -> recorder.synchronised(2);
        case 5 -> recorder.serving();
        case 6 -> recorder.firstWrite();
        default -> recorder.firstWrite(clock.get() - random.nextInt(10));
      }
    }
    assertTrue(published.size() > 100);
    for (Recovery recovery : published) {
      recovery.phasesNs().values().forEach(ns -> assertTrue(ns == null || ns >= 0, recovery::toString));
    }
  }
}

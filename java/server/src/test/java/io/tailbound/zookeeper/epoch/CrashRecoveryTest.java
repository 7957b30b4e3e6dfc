package io.tailbound.zookeeper.epoch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.epoch.SimulatedEnsemble.Damages;
import java.io.IOException;
import org.junit.jupiter.api.Test;

/**
 * Ensembles of real epoch stores and logs under killed processes and losses of power at every write, each
 * apart from the other (a page cache outlives its process): the
 * invariants of ZAB hold and no acknowledged write is lost. {@code -Dtailbound.crash.seeds=N} runs
 * more.
 */
class CrashRecoveryTest {
  private static final int SEEDS = Integer.getInteger("tailbound.crash.seeds", 600);
  private static final int STEPS_PER_SERVER = 270;

  /** What came of many runs. */
  private record Outcome(int violations, String first, long commits, long powerCuts) {}

  private static Outcome run(int size, EpochPolicy policy, Damages damages) throws IOException {
    return run(size, policy, false, damages);
  }

  private static Outcome run(int size, EpochPolicy policy, boolean trustsLog, Damages damages)
      throws IOException {
    int violations = 0;
    String first = "";
    long commits = 0;
    long cuts = 0;
    for (long seed = 0; seed < SEEDS; seed++) {
      SimulatedEnsemble ensemble = new SimulatedEnsemble(size, policy, trustsLog, damages, seed);
      try {
        for (int step = 0; step < STEPS_PER_SERVER * size; step++) {
          ensemble.step();
        }
        ensemble.settle();
      } catch (SimulatedEnsemble.Violation violation) {
        first = violations++ == 0 ? "seed " + seed + ": " + violation.getMessage() : first;
      }
      commits += ensemble.commits();
      cuts += ensemble.powerCuts();
    }
    return new Outcome(violations, first, commits, cuts);
  }

  private static void assertSafe(Outcome outcome) {
    assertEquals(0, outcome.violations(), outcome.first());
    assertTrue(outcome.commits() > SEEDS / 2, "hardly anything was committed: " + outcome);
    assertTrue(outcome.powerCuts() > SEEDS, "hardly any loss of power: " + outcome);
  }

  @Test
  void threeServersLoseNothing() throws IOException {
    assertSafe(run(3, EpochPolicy.RESERVED, Damages.NONE));
  }

  @Test
  void fiveServersLoseNothing() throws IOException {
    assertSafe(run(5, EpochPolicy.RESERVED, Damages.NONE));
  }

  @Test
  void threeServersLoseNothingWhenOneEpochFileIsDamaged() throws IOException {
    assertSafe(run(3, EpochPolicy.RESERVED, Damages.EPOCH_FILE));
  }

  @Test
  void threeServersLoseNothingWhenOneLogHasAGap() throws IOException {
    assertSafe(run(3, EpochPolicy.RESERVED, Damages.LOG));
  }

  @Test
  void fiveServersLoseNothingWhenOneLogHasAGap() throws IOException {
    assertSafe(run(5, EpochPolicy.RESERVED, Damages.LOG));
  }

  @Test
  void theSimulationFindsWhatIsWrongWithTrustInALogThatWasReadBack() throws IOException {
    Outcome outcome = run(3, EpochPolicy.SYNCHRONOUS, true, Damages.NONE);
    assertTrue(outcome.violations() > 0, "the page cache was trusted, yet nothing was lost: " + outcome);
  }

  @Test
  void upstreamsOrderLosesNothingEither() throws IOException {
    assertSafe(run(3, EpochPolicy.SYNCHRONOUS, Damages.NONE));
  }

  @Test
  void theSimulationFindsWhatIsWrongWithEpochsInMemory() throws IOException {
    Outcome outcome = run(3, EpochPolicy.VOLATILE, Damages.NONE);
    assertTrue(outcome.violations() > 0, "never synced, yet nothing was lost: " + outcome);
  }
}

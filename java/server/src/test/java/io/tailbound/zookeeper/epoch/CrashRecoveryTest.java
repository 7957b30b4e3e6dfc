package io.tailbound.zookeeper.epoch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.junit.jupiter.api.Test;

/**
 * Ensembles of real epoch stores under killed processes and losses of power at every write: the
 * invariants of ZAB hold and no acknowledged write is lost. {@code -Dtailbound.crash.seeds=N} runs
 * more.
 */
class CrashRecoveryTest {
  private static final int SEEDS = Integer.getInteger("tailbound.crash.seeds", 600);
  private static final int STEPS_PER_SERVER = 270;

  /** What came of many runs. */
  private record Outcome(int violations, String first, long commits, long powerCuts) {}

  private static Outcome run(int size, EpochPolicy policy, boolean damages) throws IOException {
    int violations = 0;
    String first = "";
    long commits = 0;
    long cuts = 0;
    for (long seed = 0; seed < SEEDS; seed++) {
      SimulatedEnsemble ensemble = new SimulatedEnsemble(size, policy, damages, seed);
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
    assertSafe(run(3, EpochPolicy.RESERVED, false));
  }

  @Test
  void fiveServersLoseNothing() throws IOException {
    assertSafe(run(5, EpochPolicy.RESERVED, false));
  }

  @Test
  void threeServersLoseNothingWhenOneEpochFileIsDamaged() throws IOException {
    assertSafe(run(3, EpochPolicy.RESERVED, true));
  }

  @Test
  void upstreamsOrderLosesNothingEither() throws IOException {
    assertSafe(run(3, EpochPolicy.SYNCHRONOUS, false));
  }

  @Test
  void theSimulationFindsWhatIsWrongWithEpochsInMemory() throws IOException {
    Outcome outcome = run(3, EpochPolicy.VOLATILE, false);
    assertTrue(outcome.violations() > 0, "never synced, yet nothing was lost: " + outcome);
  }
}

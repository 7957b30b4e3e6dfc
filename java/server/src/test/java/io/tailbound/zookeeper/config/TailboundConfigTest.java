package io.tailbound.zookeeper.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TailboundConfigTest {

  @TempDir
  private Path directory;

  private Path file;

  @BeforeEach
  void name() {
    file = directory.resolve("zoo.cfg");
  }

  private TailboundConfig load(String text) throws IOException, ConfigProblem {
    return TailboundConfig.load(Files.writeString(file, text));
  }

  @Test
  void aFileWithoutKeysOfOursSwitchesEverythingOn() throws Exception {
    assertEquals(TailboundConfig.of(Profile.TAILBOUND), load("tickTime=2000\ndataDir=/x\n"));
  }

  @Test
  void aKeyDeviatesFromItsProfile() throws Exception {
    TailboundConfig config = load("""
        tailbound.profile = vanilla
        tailbound.election.rule: short-wait
        tailbound.election.short-wait=10ms
        tailbound.heartbeat.enabled = true
        """);
    assertEquals(FinishRule.SHORT_WAIT, config.election().rule());
    assertEquals(10_000_000L, config.election().shortWaitNs());
    assertTrue(config.heartbeat().enabled());
    assertFalse(config.election().resend());
    assertEquals(EpochMode.UPSTREAM, config.epochs().mode());
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
    "tailbound.election.rul=upstream | 'tailbound.election.rule'",
    "tailbound.heartbeats.interval=50ms | 'tailbound.heartbeat.interval'",
    "Tailbound.profile=vanilla | 'tailbound.profile'",
    "tailbound.profile=fast | none of 'vanilla', 'thesis-lite', 'thesis-full', 'tailbound'",
    "tailbound.election.resend=yes | neither 'true' nor 'false'",
    "tailbound.heartbeat.interval=50 | a whole number and a unit",
    "tailbound.heartbeat.interval=0ms | outside of 5ms to 60s",
    "tailbound.heartbeat.timeout=100ms | at least four intervals (200ms)",
    "tailbound.heartbeat.longest-timeout=400ms | at least the timeout (500ms)",
    "tailbound.heartbeat.gap-factor=0 | no whole number from 1 to 100",
    "tailbound.election.short-wait=99999999999ms | no duration",
    "tailbound.epochs.reserve=9999 | no whole number from 1 to 1024",
    "tailbound.leader.rehearsals=21 | no whole number from 0 to 20",
    "tailbound.ensemble=a b | no name of 1 to 64",
  })
  void aProblemNamesFileLineKeyAndWhatWouldBeRight(String entry, String remedy) {
    ConfigProblem problem = assertThrows(ConfigProblem.class,
        () -> load("tickTime=2000\n# a comment\n" + entry + "\nsyncLimit=5\n"));
    String key = entry.substring(0, entry.indexOf('='));
    assertTrue(problem.getMessage().startsWith(file + ":3: " + key + ": "), problem.getMessage());
    assertTrue(problem.getMessage().contains(remedy), problem.getMessage());
  }

  @Test
  void aKeyGivenTwiceIsAProblemOfTheSecondLine() {
    ConfigProblem problem = assertThrows(ConfigProblem.class,
        () -> load("tailbound.profile=vanilla\n\ntailbound.profile=tailbound\n"));
    assertTrue(problem.getMessage().contains(":3: tailbound.profile: given before, in line 1"));
  }

  @Test
  void aContinuedLineCountsFromItsFirst() {
    ConfigProblem problem = assertThrows(ConfigProblem.class,
        () -> load("a=b\\\n  c\ntailbound.\\\n  nothing=1\n"));
    assertTrue(problem.getMessage().contains(":3: tailbound.nothing: unknown key"), problem.getMessage());
  }

  @Test
  void arbitraryTextIsReadOrRefusedButNeverCrashes() throws Exception {
    Random random = new Random(1);
    String alphabet = "tailbound.=:\\ \n\ru#!0aé-\t";
    for (int trial = 0; trial < 2_000; trial++) {
      StringBuilder text = new StringBuilder();
      for (int i = random.nextInt(80); i > 0; i--) {
        text.append(alphabet.charAt(random.nextInt(alphabet.length())));
      }
      try {
        load(text.toString());
      } catch (ConfigProblem expected) {
        assertTrue(expected.getMessage().startsWith(file.toString()));
      }
    }
  }
}

package io.tailbound.zookeeper.rehearsal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.Appender;
import ch.qos.logback.core.read.ListAppender;
import io.tailbound.zookeeper.config.Profile;
import io.tailbound.zookeeper.config.TailboundConfig;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import javax.management.ObjectName;
import org.apache.zookeeper.util.ServiceUtils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.LoggerFactory;

/** A rehearsal leaves nothing behind, and one that fails does no harm. */
class RehearsalTest {

  private static final Duration LIMIT = Duration.ofSeconds(20);

  @TempDir
  private Path directory;
  private final ListAppender<ILoggingEvent> written = new ListAppender<>();
  private final Logger tested = (Logger) LoggerFactory.getLogger(Rehearsal.class);
  private final Logger root = (Logger) LoggerFactory.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);

  @BeforeEach
  void watchTheLog() {
    written.start();
    root.addAppender(written);
    tested.setLevel(Level.INFO);
  }

  @AfterEach
  void leaveTheLog() {
    tested.setLevel(null);
    root.detachAppender(written);
    ServiceUtils.setSystemExitProcedure(ServiceUtils.SYSTEM_EXIT);
  }

  private static TailboundConfig config() {
    return TailboundConfig.of(Profile.TAILBOUND);
  }

  private List<String> logged() {
    return written.list.stream().map(ILoggingEvent::getFormattedMessage).toList();
  }

  @Test
  void whatBelongsToTheProcessIsPutBack() throws Exception {
    final Set<Thread> threads = Set.copyOf(Thread.getAllStackTraces().keySet());
    final Set<ObjectName> beans = ManagementFactory.getPlatformMBeanServer().queryNames(null, null);
    final Set<Object> properties = Set.copyOf(System.getProperties().entrySet());
    final List<Appender<ILoggingEvent>> appenders = appenders();

    Rehearsal.before(config(), directory);

    assertEquals(1, logged().size(), () -> "only the result is logged: " + logged());
    assertTrue(logged().get(0).startsWith("Rehearsed 4 recoveries in "), logged().get(0));
    assertEquals(appenders, appenders());
    try (var left = Files.list(directory)) {
      assertEquals(List.of(), left.toList());
    }
    assertEquals(beans, ManagementFactory.getPlatformMBeanServer().queryNames(null, null));
    assertEquals(properties, Set.copyOf(System.getProperties().entrySet()));
    Set<Thread> left = new HashSet<>(Thread.getAllStackTraces().keySet());
    left.removeAll(threads);
    left.removeIf(thread -> !thread.isAlive());
    assertEquals(Set.of(), left);
  }

  private List<Appender<ILoggingEvent>> appenders() {
    List<Appender<ILoggingEvent>> appenders = new ArrayList<>();
    root.iteratorForAppenders().forEachRemaining(appenders::add);
    return appenders;
  }

  /** Such a server does not vote while it has no data, unless it is told that it is new. */
  @Test
  void serversThatMakeNoDatabaseByThemselvesRehearseToo() throws Exception {
    System.setProperty("zookeeper.db.autocreate", "false");
    try {
      Rehearsal.run(config(), 1, directory.resolve("empty"));
    } finally {
      System.clearProperty("zookeeper.db.autocreate");
    }
  }

  @Test
  void serversWhoseClientsMustAuthenticateRehearseToo() throws Exception {
    System.setProperty("zookeeper.sessionRequireClientSASLAuth", "true");
    System.setProperty("zookeeper.authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider");
    try {
      Rehearsal.run(config(), 1, directory.resolve("authenticated"));
    } finally {
      System.clearProperty("zookeeper.sessionRequireClientSASLAuth");
      System.clearProperty("zookeeper.authProvider.1");
    }
  }

  @Test
  void asManyRecoveriesAsCanBeAskedForSucceedInARow() throws Exception {
    Rehearsal.run(config(), 20, directory.resolve("many"));
  }

  @Test
  void whatAKilledRehearsalLeftIsRemoved() throws Exception {
    Path left = Files.createDirectories(directory.resolve("tailbound-rehearsal"));
    try (DroppedLog dropped = new DroppedLog();
        RehearsedEnsemble killed = new RehearsedEnsemble(
            config(), left, LIMIT, () -> RehearsedEnsemble.NO_EXIT)) {
      killed.write();
    }
    Files.writeString(left.resolve("1/version-2/currentEpoch"), "no number");

    Rehearsal.before(config(), directory);

    assertTrue(logged().get(0).startsWith("Rehearsed 4 recoveries in "), logged().get(0));
    assertFalse(Files.exists(directory.resolve("tailbound-rehearsal")));
  }

  @Test
  void aFolderThatCannotBeMadeIsAWarning() throws Exception {
    Path file = Files.writeString(directory.resolve("file"), "");

    Rehearsal.before(config(), file);

    assertEquals(1, logged().size(), () -> "one line: " + logged());
    assertTrue(logged().get(0).startsWith("Recoveries could not be rehearsed"), logged().get(0));
  }

  @Test
  void aServerThatWouldEndTheProcessEndsTheRehearsal() throws Exception {
    Path folder = Files.createDirectories(directory.resolve("ensemble"));
    int[] exitCode = {RehearsedEnsemble.NO_EXIT};
    try (DroppedLog dropped = new DroppedLog();
        RehearsedEnsemble ensemble = new RehearsedEnsemble(
            config(), folder, LIMIT, () -> exitCode[0])) {
      exitCode[0] = 14;
      IOException failure = assertThrows(IOException.class, ensemble::recover);
      assertTrue(failure.getMessage().contains("exit code 14"), failure.getMessage());
    }
  }
}

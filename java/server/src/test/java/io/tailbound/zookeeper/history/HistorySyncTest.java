package io.tailbound.zookeeper.history;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import org.junit.jupiter.api.Test;

class HistorySyncTest {
  private final Deque<Runnable> background = new ArrayDeque<>();
  private int syncs;
  private boolean broken;
  private final HistorySync history = new HistorySync(this::sync, background::add);

  private void sync() throws IOException {
    syncs++;
    if (broken) {
      throw new IOException("Input/output error");
    }
  }

  @Test
  void whoWaitsBeforeTheBackgroundSyncsItself() throws IOException {
    history.readBack();
    assertFalse(history.isDurable());
    history.await();
    assertEquals(1, syncs);
    background.remove().run();
    assertEquals(1, syncs, "nothing was left to sync");
    assertTrue(history.isDurable());
  }

  @Test
  void whatIsReadBackAgainIsSyncedAgain() throws IOException {
    history.readBack();
    background.remove().run();
    history.await();
    assertEquals(1, syncs);
    history.readBack();
    history.await();
    assertEquals(2, syncs);
  }

  @Test
  void afterAFailedSyncNoneSucceeds() {
    history.readBack();
    broken = true;
    assertThrows(IOException.class, history::await);
    broken = false;
    assertThrows(IOException.class, history::await);
    assertFalse(history.isDurable());
  }
}

package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.recovery.Recovery;
import io.tailbound.zookeeper.recovery.RecoveryRecorder;
import java.util.List;

/** Hands what happens to the recorder; a role is left once, for the first cause that was noticed. */
final class RecoveryTimes {

  private volatile RecoveryRecorder recorder = new Unheard();
  private boolean inElection;

  /** Where the times go from now on. */
  void to(RecoveryRecorder target) {
    recorder = target;
  }

  RecoveryRecorder recorder() {
    return recorder;
  }

  synchronized void left(RecoveryRecorder.LossCause cause) {
    if (!inElection) {
      inElection = true;
      recorder.leaderLost(cause);
    }
  }

  synchronized void elected(RecoveryRecorder.Role role, long leader) {
    inElection = false;
    recorder.elected(role, leader);
  }

  /** Takes the place of the recorder before the server starts. */
  private static final class Unheard implements RecoveryRecorder {
    @Override
    public void leaderSign() {}

    @Override
    public void leaderLost(LossCause cause) {}

    @Override
    public void elected(Role role, long leader) {}

    @Override
    public void connected() {}

    @Override
    public void synchronised(long epoch) {}

    @Override
    public void serving() {}

    @Override
    public void firstWrite(long arrivedNs) {}

    @Override
    public void stop() {}

    @Override
    public List<Recovery> recent() {
      return List.of();
    }
  }
}

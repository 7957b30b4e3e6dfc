package io.tailbound.zookeeper.recovery;

import java.io.InputStream;
import java.util.List;
import java.util.Map;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.admin.CommandResponse;
import org.apache.zookeeper.server.admin.GetCommand;

/** AdminServer command {@code /commands/recovery}: the breakdown of the last recoveries. */
final class RecoveryCommand extends GetCommand {
  private final RecoveryRecorder recorder;

  RecoveryCommand(RecoveryRecorder recorder) {
    // Works also while no server runs: during a recovery one wants to see the last ones.
    super(List.of("recovery"), false);
    this.recorder = recorder;
  }

  @Override
  public CommandResponse runGet(ZooKeeperServer server, Map<String, String> arguments) {
    CommandResponse response = initializeResponse();
    response.putAll(RecoveryJson.breakdownMap(recorder.recent()));
    return response;
  }
}

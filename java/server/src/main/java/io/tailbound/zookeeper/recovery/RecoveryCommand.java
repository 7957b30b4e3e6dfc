package io.tailbound.zookeeper.recovery;

import java.io.InputStream;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.admin.CommandResponse;
import org.apache.zookeeper.server.admin.GetCommand;

/**
 * AdminServer command {@code /commands/recovery}: the breakdown of the last recoveries, and what was wrong with
 * the data at the start of this server ({@code damaged_data}, empty if nothing was).
 */
final class RecoveryCommand extends GetCommand {
  private final RecoveryRecorder recorder;
  private final Supplier<List<String>> damages;

  RecoveryCommand(RecoveryRecorder recorder, Supplier<List<String>> damages) {
    // Works also while no server runs: during a recovery one wants to see the last ones.
    super(List.of("recovery"), false);
    this.recorder = recorder;
    this.damages = damages;
  }

  @Override
  public CommandResponse runGet(ZooKeeperServer server, Map<String, String> arguments) {
    CommandResponse response = initializeResponse();
    response.putAll(RecoveryJson.breakdownMap(recorder.recent()));
    response.put("damaged_data", damages.get());
    return response;
  }
}

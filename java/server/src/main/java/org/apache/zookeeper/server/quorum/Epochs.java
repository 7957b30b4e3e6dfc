package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.config.EpochConfig;
import io.tailbound.zookeeper.config.EpochMode;
import io.tailbound.zookeeper.epoch.EpochPolicy;
import io.tailbound.zookeeper.epoch.EpochSettings;
import io.tailbound.zookeeper.epoch.EpochStore;
import io.tailbound.zookeeper.epoch.FileEpochStore;
import io.tailbound.zookeeper.epoch.Voting;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Opens the epoch store of a peer. */
final class Epochs {

  private static final Logger LOG = LoggerFactory.getLogger(Epochs.class);

  private Epochs() {}

  /**
   * Opens the store, which repairs upstream's files by its own if it can. If it cannot, upstream's
   * files are put aside: upstream refuses to start with damaged ones, and this server has to start to
   * ask its peers.
   */
  static EpochStore open(TailboundPeer peer, EpochConfig config, long lastLoggedZxid, boolean historyLost)
      throws IOException {
    File directory = peer.getTxnFactory().getSnapDir();
    EpochPolicy policy = config.mode() == EpochMode.VOLATILE ? EpochPolicy.VOLATILE : EpochPolicy.RESERVED;
    EpochStore store = FileEpochStore.open(new EpochSettings(directory.toPath(), peer.getMyId(), voting(peer),
        config.ensemble(), policy, config.reserve(), Math.max(lastLoggedZxid, 0), historyLost));
    if (!store.inDoubt() && store.current() == EpochStore.UNKNOWN && !historyLost) {
      LOG.warn("Server {} lost its history or its current epoch and has not followed a leader since: no quorum of"
          + " a new leader counts it until it has", peer.getMyId());
    }
    if (store.inDoubt() || store.current() == EpochStore.UNKNOWN) {
      for (String name : List.of(QuorumPeer.ACCEPTED_EPOCH_FILENAME, QuorumPeer.CURRENT_EPOCH_FILENAME)) {
        putAside(directory.toPath().resolve(name));
      }
    }
    return store;
  }

  private static void putAside(Path file) throws IOException {
    if (Files.exists(file)) {
      Path aside = file.resolveSibling(file.getFileName() + ".doubtful");
      Files.move(file, aside, StandardCopyOption.REPLACE_EXISTING);
      LOG.warn("Moved {} to {}: its value is in doubt", file, aside);
    }
  }

  private static Voting voting(TailboundPeer peer) {
    return new Voting() {
      @Override
      public Set<Long> voters() {
        return peer.getQuorumVerifier().getVotingMembers().keySet();
      }

      @Override
      public boolean isQuorum(Set<Long> servers) {
        return peer.getQuorumVerifier().containsQuorum(servers);
      }
    };
  }
}

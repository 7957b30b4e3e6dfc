package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.io.IOException;
import java.nio.file.Path;
import org.apache.zookeeper.server.quorum.QuorumPeer.SyncMode;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a follower that loses its leader during the synchronisation brings into the next election. */
class BrokenOffSyncTest {

  private static final long EPOCH = 1;

  @TempDir
  private Path directory;

  private TailboundPeer peer;
  private FollowerZooKeeperServer server;

  @BeforeEach
  void load() throws IOException {
    peer = PeerInMemory.create(directory);
    server = new FollowerZooKeeperServer(peer.getTxnFactory(), peer, peer.getZkDb());
    peer.getZkDb().loadDataBase();
    peer.setAcceptedEpoch(EPOCH);
    peer.setCurrentEpoch(EPOCH);
    peer.getZkDb().append(PeerInMemory.creation(EPOCH, 1));
    peer.getZkDb().commit();
    peer.getZkDb().fastForwardDataBase();
  }

  /** Received, applied to the tree and not logged, as upstream's learner does after a TRUNC. */
  private void receiveUnlogged() {
    server.processTxn(PeerInMemory.creation(EPOCH, 2));
    assertNotNull(peer.getZkDb().getDataTree().getNode("/n2"));
  }

  @Test
  void whatATruncatedFollowerReceivedWithoutLoggingItIsForgotten() throws IOException {
    peer.setSyncMode(SyncMode.TRUNC);
    receiveUnlogged();
    new PromptFollower(peer, server).shutdown();
    assertEquals(EPOCH << 32 | 1, peer.getLastLoggedZxid());
    assertNull(peer.getZkDb().getDataTree().getNode("/n2"));
    assertNotNull(peer.getZkDb().getDataTree().getNode("/n1"));
    assertEquals(SyncMode.NONE, peer.getSyncMode());
  }

  @Test
  void aFormerObserverWritesItsTreeBeforeItLeads() throws Exception {
    receiveUnlogged();
    peer.makeObserver(peer.getTxnFactory());
    new PromptLeaderServer(peer.getTxnFactory(), peer, peer.getZkDb()).loadData();
    assertEquals(EPOCH << 32 | 2, PeerInMemory.create(directory).getLastLoggedZxid());
  }

  @Test
  void aLeaderWhoseTreeIsOnDiskWritesNoSnapshotBeforeItServes() throws Exception {
    long before = snapshots();
    new PromptLeaderServer(peer.getTxnFactory(), peer, peer.getZkDb()).loadData();
    assertEquals(before, snapshots());
  }

  private long snapshots() {
    return peer.getTxnFactory().getSnapDir().list((folder, name) -> name.startsWith("snapshot.")).length;
  }
}

package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.nio.file.Path;
import java.util.Optional;
import java.util.Properties;
import org.apache.zookeeper.server.quorum.flexible.QuorumHierarchical;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.apache.zookeeper.server.quorum.flexible.QuorumVerifier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FormattedQuorumMajTest {

  private static Properties members() {
    Properties members = new Properties();
    members.setProperty("server.1", "127.0.0.1:2888:3888:participant;127.0.0.1:2181");
    members.setProperty("server.11", "127.0.0.2:2888:3888:observer");
    members.setProperty("server.2", "[::1]:2888:3888:participant");
    members.setProperty("version", "1f");
    return members;
  }

  @Test
  void theTextIsUpstreamsInEachVersion() throws Exception {
    QuorumMaj upstream = new QuorumMaj(members());
    QuorumVerifier ours = FormattedQuorumMaj.of(upstream);
    for (long version : new long[] {0x1f, 0x1f, 0x20, 0}) {
      upstream.setVersion(version);
      ours.setVersion(version);
      assertEquals(upstream.toString(), ours.toString());
    }
    assertEquals(upstream, ours);
    assertEquals(upstream.getVotingMembers(), ours.getVotingMembers());
  }

  @Test
  void aCopyHasItsOwnVersion() throws Exception {
    FormattedQuorumMaj ours = (FormattedQuorumMaj) FormattedQuorumMaj.of(new QuorumMaj(members()));
    FormattedQuorumMaj copy = ours.copy();
    copy.setVersion(0x30);
    assertEquals(0x1f, ours.getVersion());
    assertEquals(ours.toString().replace("version=1f", "version=30"), copy.toString());
  }

  @Test
  void aMemberIsToldAsUpstreamTellsIt() throws Exception {
    QuorumMaj upstream = new QuorumMaj(members());
    FormattedQuorumMaj ours = (FormattedQuorumMaj) FormattedQuorumMaj.of(upstream);
    upstream.getAllMembers().forEach((id, member) ->
        assertEquals(Optional.of(member.toString()), ours.member(id)));
    assertEquals(Optional.empty(), ours.member(3));
  }

  @Test
  void otherKindsAreLeftAlone() throws Exception {
    Properties groups = members();
    groups.setProperty("group.1", "1:2");
    groups.setProperty("weight.1", "1");
    groups.setProperty("weight.2", "1");
    QuorumVerifier hierarchical = new QuorumHierarchical(groups);
    assertSame(hierarchical, FormattedQuorumMaj.of(hierarchical));
  }

  /** Upstream's new leader reads its configuration and changes the version of what it read. */
  @Test
  void aConfigurationThatWasReadBeforeIsReadAsItWasWritten(@TempDir Path directory) throws Exception {
    TailboundPeer peer = PeerInMemory.create(directory);
    String text = peer.getQuorumVerifier().toString();
    QuorumVerifier first = peer.configFromString(text);
    first.setVersion(77);
    QuorumVerifier second = peer.configFromString(text);
    second.setVersion(78);
    QuorumVerifier third = peer.configFromString(text);
    assertNotSame(first, second);
    assertInstanceOf(FormattedQuorumMaj.class, third);
    assertEquals(0, third.getVersion());
    assertEquals(text, third.toString());
    QuorumVerifier other = peer.configFromString(text.replace("version=0", "version=5"));
    assertEquals(5, other.getVersion());
  }
}

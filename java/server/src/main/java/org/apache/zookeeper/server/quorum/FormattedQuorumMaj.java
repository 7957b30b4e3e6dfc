package org.apache.zookeeper.server.quorum;

import java.util.Map;
import java.util.Optional;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.apache.zookeeper.server.quorum.flexible.QuorumVerifier;

/**
 * Upstream's majority, with a text that is made once. Upstream sends the configuration along with every
 * vote and formats it anew each time, a good part of the work of an election.
 */
final class FormattedQuorumMaj extends QuorumMaj {

  private static final String VERSION = "version=";

  private final Lines lines;

  /** One line for each member, made at first use; copies share them. */
  private static final class Lines {
    private volatile String text;
  }

  private FormattedQuorumMaj(Map<Long, QuorumServer> members, long version, Lines lines) {
    super(members);
    setVersion(version);
    this.lines = lines;
  }

  /** The same quorums; kinds other than the plain majority are returned as they are. */
  static QuorumVerifier of(QuorumVerifier verifier) {
    return verifier != null && verifier.getClass() == QuorumMaj.class
        ? new FormattedQuorumMaj(verifier.getAllMembers(), verifier.getVersion(), new Lines())
        : verifier;
  }

  /** The same members and version, where the version may be changed. */
  FormattedQuorumMaj copy() {
    return new FormattedQuorumMaj(getAllMembers(), getVersion(), lines);
  }

  private String members() {
    String known = lines.text;
    if (known == null) {
      String whole = super.toString();
      known = whole.substring(0, whole.lastIndexOf(VERSION));
      lines.text = known;
    }
    return known;
  }

  @Override
  public String toString() {
    return members() + VERSION + Long.toHexString(getVersion());
  }

  /** The text of one member, if there is such a member. */
  Optional<String> member(long server) {
    String key = "server." + server + "=";
    String all = members();
    int line = all.startsWith(key) ? 0 : all.indexOf("\n" + key) + 1;
    return getAllMembers().containsKey(server)
        ? Optional.of(all.substring(line + key.length(), all.indexOf('\n', line)))
        : Optional.empty();
  }
}

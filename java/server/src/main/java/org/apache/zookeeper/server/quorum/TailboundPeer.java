package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.config.TailboundConfig;
import javax.security.sasl.SaslException;

/** A quorum peer with the mechanisms of bounded recovery, each of which can be switched off. */
public class TailboundPeer extends QuorumPeer {

  private final TailboundConfig config;

  /** @param config the settings of the mechanisms */
  public TailboundPeer(TailboundConfig config) throws SaslException {
    this.config = config;
  }
}

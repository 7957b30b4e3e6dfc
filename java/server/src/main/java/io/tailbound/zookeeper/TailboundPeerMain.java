package io.tailbound.zookeeper;

import ch.qos.logback.core.spi.LifeCycle;
import io.tailbound.zookeeper.config.ConfigProblem;
import io.tailbound.zookeeper.config.TailboundConfig;
import io.tailbound.zookeeper.rehearsal.Rehearsal;
import io.tailbound.zookeeper.rehearsal.Urgency;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import javax.security.sasl.SaslException;
import org.apache.zookeeper.server.ExitCode;
import org.apache.zookeeper.server.admin.AdminServer.AdminServerException;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog.DatadirException;
import org.apache.zookeeper.server.quorum.QuorumPeer;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig.ConfigException;
import org.apache.zookeeper.server.quorum.QuorumPeerMain;
import org.apache.zookeeper.server.quorum.TailboundPeer;
import org.apache.zookeeper.util.ServiceUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts a server of this kind in the foreground from an ordinary {@code zoo.cfg}. A standalone
 * configuration runs upstream's standalone server, since no mechanism applies to it.
 */
public final class TailboundPeerMain extends QuorumPeerMain {

  private static final Logger LOG = LoggerFactory.getLogger(TailboundPeerMain.class);

  private final TailboundConfig config;

  /** @param config the settings of the mechanisms */
  public TailboundPeerMain(TailboundConfig config) {
    this.config = config;
  }

  /** @param args one configuration file */
  public static void main(String[] args) {
    if (args.length != 1) {
      fail("usage: tailbound-zookeeper CONF", ExitCode.INVALID_INVOCATION);
      return;
    }
    ExitCode code = run(args[0]);
    ServiceUtils.requestSystemExit(code.getValue());
  }

  private static ExitCode run(String file) {
    try {
      TailboundConfig config = TailboundConfig.load(Path.of(file));
      LOG.info("Settings of the mechanisms: {}", config);
      new TailboundPeerMain(config).initializeAndRun(new String[] {file});
      return ExitCode.EXECUTION_FINISHED;
    } catch (ConfigProblem e) {
      return tell(e.getMessage(), ExitCode.INVALID_INVOCATION);
    } catch (NoSuchFileException e) {
      return tell(file + ": there is no such file", ExitCode.INVALID_INVOCATION);
    } catch (ConfigException | IllegalArgumentException e) {
      return tell(file + ": " + withCause(e), ExitCode.INVALID_INVOCATION);
    } catch (DatadirException e) {
      return tell("data directory: " + withCause(e), ExitCode.UNABLE_TO_ACCESS_DATADIR);
    } catch (AdminServerException e) {
      return tell("admin server: " + withCause(e), ExitCode.ERROR_STARTING_ADMIN_SERVER);
    } catch (IOException | RuntimeException e) {
      LOG.error("The server ends", e);
      return tell(withCause(e), ExitCode.UNEXPECTED_ERROR);
    }
  }

  /** Rehearses recoveries, unless the ensemble waits for this server, and runs the server. */
  @Override
  public void runFromConfig(QuorumPeerConfig quorum) throws IOException, AdminServerException {
    if (config.leader().rehearsals() > 0 && quorum.getPeerType() == QuorumPeer.LearnerType.PARTICIPANT) {
      if (Urgency.isWaitedFor(quorum.getQuorumVerifier(), quorum.getServerId())) {
        LOG.info("No recovery is rehearsed, since the ensemble has no quorum without this server");
      } else {
        Rehearsal.before(config, quorum.getDataDir().toPath());
      }
    }
    super.runFromConfig(quorum);
  }

  private static ExitCode tell(String problem, ExitCode code) {
    if (LoggerFactory.getILoggerFactory() instanceof LifeCycle logging) {
      // What was logged is written by another thread; the problem comes last.
      logging.stop();
    }
    System.err.println("tailbound-zookeeper: " + problem);
    return code;
  }

  private static void fail(String problem, ExitCode code) {
    System.err.println(problem);
    ServiceUtils.requestSystemExit(code.getValue());
  }

  private static String withCause(Throwable error) {
    Throwable cause = error.getCause();
    String text = error.getMessage() == null ? error.toString() : error.getMessage();
    return cause == null || cause.getMessage() == null ? text : text + ": " + cause.getMessage();
  }

  @Override
  protected QuorumPeer getQuorumPeer() throws SaslException {
    return new TailboundPeer(config);
  }
}

package io.tailbound.zookeeper.harness.power;

import io.tailbound.zookeeper.harness.client.SessionIdentity;
import io.tailbound.zookeeper.harness.client.ZooKeeperConnection;
import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.zookeeper.KeeperException;

/** What an ensemble that has come back shows: lost writes, replicas that differ, epochs led twice. */
final class Verdict {
    private static final int TIMEOUT_MS = 10_000;
    private static final int ATTEMPTS = 20;
    private static final int RETRY_MS = 250;
    private static final Pattern LED =
            Pattern.compile("starting up and setting last processed zxid: 0x([0-9a-f]+)");
    private static final List<String> COMPLAINTS =
            List.of("First digest mismatch on txn", "Committed proposal cached out of order");
    /**
     * A leader sends its tree while it applies more to it, so the first transactions after that do not fit
     * what a follower got; that the replicas are equal in the end is looked at apart from this.
     */
    private static final Pattern AFTER_SNAPSHOT =
            Pattern.compile(
                    "Getting a snapshot from leader(?:(?!- LOOKING\n).)*?First digest mismatch on txn",
                    Pattern.DOTALL);

    private final Ensemble ensemble;
    private final Map<String, Integer> complaintsBefore = new HashMap<>();

    Verdict(Ensemble ensemble) {
        this.ensemble = ensemble;
    }

    /**
     * Everything that is wrong.
     *
     * @param acknowledged what must be there, by parent
     */
    List<String> wrong(Map<String, Set<String>> acknowledged) throws IOException, InterruptedException {
        List<String> wrong = new ArrayList<>();
        for (Map.Entry<String, Set<String>> entry : acknowledged.entrySet()) {
            Set<String> first = null;
            for (int id = 1; id <= ensemble.size(); id++) {
                Set<String> there = children(id, entry.getKey());
                Set<String> missing = new TreeSet<>(entry.getValue());
                missing.removeAll(there);
                if (!missing.isEmpty()) {
                    wrong.add("server " + id + " lacks " + missing.size() + " acknowledged writes below "
                            + entry.getKey() + ", such as " + missing.iterator().next());
                }
                if (first != null && !first.equals(there)) {
                    wrong.add("servers 1 and " + id + " differ below " + entry.getKey());
                }
                first = first == null ? there : first;
            }
        }
        lookAtLogs(wrong);
        return wrong;
    }

    private Set<String> children(int id, String parent) throws IOException, InterruptedException {
        Exception last = null;
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            try (ZooKeeperConnection connection =
                    ZooKeeperConnection.open(
                            ensemble.clientAddress(id), SessionIdentity.fresh(TIMEOUT_MS), TIMEOUT_MS)) {
                connection.sync(parent);
                return new TreeSet<>(connection.getChildren(parent));
            } catch (KeeperException.NoNodeException missing) {
                return Set.of();
            } catch (IOException | KeeperException down) {
                last = down;
                Thread.sleep(RETRY_MS);
            }
        }
        throw new IOException("server " + id + " cannot be read: " + last.getMessage(), last);
    }

    private void lookAtLogs(List<String> wrong) throws IOException {
        Map<Long, Integer> leaders = new HashMap<>();
        for (int id = 1; id <= ensemble.size(); id++) {
            String log = Files.readString(ensemble.log(id));
            Matcher led = LED.matcher(log);
            while (led.find()) {
                long epoch = Long.parseUnsignedLong(led.group(1), 16) >>> 32;
                Integer other = leaders.putIfAbsent(epoch, id);
                if (other != null && other != id) {
                    wrong.add("epoch " + epoch + " was led by servers " + other + " and " + id);
                }
            }
            log = AFTER_SNAPSHOT.matcher(log).replaceAll("");
            for (String complaint : COMPLAINTS) {
                int times = log.split(Pattern.quote(complaint), -1).length - 1;
                Integer before = complaintsBefore.put(id + complaint, times);
                if (times > (before == null ? 0 : before)) {
                    wrong.add("server " + id + " says: " + complaint);
                }
            }
        }
    }
}

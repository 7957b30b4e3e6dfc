package io.tailbound.zookeeper.client.agent;

import io.tailbound.zookeeper.client.pace.ClientPace;
import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import java.lang.instrument.ClassFileTransformer;
import java.net.URL;
import java.security.CodeSource;
import java.security.ProtectionDomain;

/** Rewrites the two classes of a ZooKeeper client that wait before they connect again. */
final class ClientTransformer implements ClassFileTransformer {
    static final String SEND_THREAD = "org/apache/zookeeper/ClientCnxn$SendThread";
    static final String NIO_SOCKET = "org/apache/zookeeper/ClientCnxnSocketNIO";

    private final ReconnectOptions options;
    private final Report report;

    ClientTransformer(ReconnectOptions options, Report report) {
        this.options = options;
        this.report = report;
    }

    /** The rewritten class, or null to leave it as it is. Throws nothing: a failure is reported. */
    @Override
    public byte[] transform(
            ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] classFile) {
        if (!SEND_THREAD.equals(name) && !NIO_SOCKET.equals(name)) {
            return null;
        }
        String where = jarOf(domain);
        try {
            if (!reachesPace(loader)) {
                report.say("the class loader of the ZooKeeper client in " + where
                        + " does not find the agent's classes. It is left as it is and reconnects as it always did.");
                return null;
            }
            return SEND_THREAD.equals(name) ? sendThread(classFile, where) : nioSocket(classFile, where);
        } catch (RuntimeException | LinkageError e) {
            report.say("cannot read " + name + " in " + where + " (" + e + "). It is left as it is.");
            return null;
        }
    }

    /** Whether rewritten classes of a loader would call the pace that this agent has configured. */
    private static boolean reachesPace(ClassLoader loader) {
        try {
            return Class.forName(ClientPace.class.getName(), false, loader) == ClientPace.class;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    private byte[] sendThread(byte[] classFile, String where) {
        ClientRewriting.Result result = ClientRewriting.sendThread(classFile);
        if (!result.missing().isEmpty()) {
            report.say("the ZooKeeper client in " + where + " is of a version that is not known (no "
                    + String.join(", no ", result.missing()) + "). It is left as it is and reconnects as it always did.");
            return null;
        }
        report.say("the ZooKeeper client in " + where + " reconnects promptly (" + options + "): replaced its waits in "
                + "ClientCnxn.SendThread.startConnect and run.");
        return result.classFile();
    }

    private byte[] nioSocket(byte[] classFile, String where) {
        ClientRewriting.Result result = ClientRewriting.nioSocket(classFile);
        if (!result.missing().isEmpty()) {
            report.say("found no wait to replace in ClientCnxnSocketNIO.cleanup of " + where + ".");
            return null;
        }
        return result.classFile();
    }

    private static String jarOf(ProtectionDomain domain) {
        CodeSource source = domain == null ? null : domain.getCodeSource();
        URL location = source == null ? null : source.getLocation();
        if (location == null) {
            return "(unknown jar)";
        }
        String path = location.getPath();
        return path.substring(path.lastIndexOf('/', path.length() - 2) + 1);
    }
}

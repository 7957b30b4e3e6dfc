package io.tailbound.zookeeper.harness.ensemble;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** ZooKeeper servers, stock or ours, on the ports 2181, 2888 and 3888 of an address each. */
final class ZooKeeperEnsemble extends Ensemble {
    private static final int CLIENT_PORT = 2181;
    private static final int ANSWER_TIMEOUT_MS = 500;
    /** The heap that ZooKeeper's own start script gives a server. */
    private static final String HEAP = "-Xmx1000m";

    /** What stock servers log by; ours have what they are delivered with. */
    private static final String LOGGING = "server-logback.xml";

    ZooKeeperEnsemble(Setup setup) {
        super(setup);
    }

    @Override
    public InetSocketAddress clientAddress(int id) {
        return new InetSocketAddress(setup().placement().site(id).host(), CLIENT_PORT);
    }

    private Path configuration(int id) {
        return serverFolder(id).resolve("zoo.cfg");
    }

    private Path logging(int id) {
        return serverFolder(id).resolve(LOGGING);
    }

    @Override
    void prepare(int id) throws IOException {
        Path data = Files.createDirectories(serverFolder(id).resolve("data"));
        Files.writeString(data.resolve("myid"), id + "\n");
        List<String> lines = new ArrayList<>();
        lines.addAll(List.of("tickTime=2000", "initLimit=10", "syncLimit=5"));
        lines.add("dataDir=" + data);
        lines.add("clientPort=" + CLIENT_PORT);
        lines.add("clientPortAddress=" + setup().placement().site(id).host());
        lines.add("admin.enableServer=false");
        lines.add("maxClientCnxns=0");
        for (int peer = 1; peer <= size(); peer++) {
            lines.add("server." + peer + "=" + setup().placement().site(peer).host() + ":2888:3888");
        }
        // Later lines of a properties file win.
        lines.addAll(setup().config());
        lines.addAll(setup().variant().config());
        Files.write(configuration(id), lines);
        try (InputStream logging = getClass().getResourceAsStream("/" + LOGGING)) {
            Files.copy(logging, logging(id), StandardCopyOption.REPLACE_EXISTING);
        }
    }

    @Override
    List<String> command(int id) throws IOException {
        String configuration = configuration(id).toString();
        if (setup().variant().launcher() == Variant.Launcher.TAILBOUND) {
            List<String> ours = new ArrayList<>(List.of(Programs.tailboundLauncher().toString()));
            ours.addAll(setup().variant().options(id, Runtime.getRuntime().availableProcessors()));
            ours.add(configuration);
            return ours;
        }
        List<String> command = new ArrayList<>(List.of(Programs.java(), HEAP));
        command.add("-Dlogback.configurationFile=" + logging(id));
        command.addAll(setup().variant().jvm());
        command.addAll(List.of("-cp", System.getProperty("java.class.path")));
        command.add("org.apache.zookeeper.server.quorum.QuorumPeerMain");
        command.add(configuration);
        return command;
    }

    @Override
    Map<String, String> environment(int id) {
        if (setup().variant().launcher() == Variant.Launcher.TAILBOUND) {
            return Map.of("SERVER_JVMFLAGS", String.join(" ", setup().variant().jvm()));
        }
        return Map.of();
    }

    @Override
    Role role(int id) {
        try (Socket socket = new Socket()) {
            socket.setSoTimeout(ANSWER_TIMEOUT_MS);
            socket.connect(clientAddress(id), ANSWER_TIMEOUT_MS);
            socket.getOutputStream().write("srvr".getBytes(StandardCharsets.US_ASCII));
            byte[] answer = socket.getInputStream().readAllBytes();
            String text = new String(answer, StandardCharsets.US_ASCII);
            if (text.contains("Mode: leader")) {
                return Role.LEADS;
            }
            return text.contains("Mode: follower") ? Role.FOLLOWS : Role.OUT_OF_SERVICE;
        } catch (IOException down) {
            return Role.OUT_OF_SERVICE;
        }
    }
}

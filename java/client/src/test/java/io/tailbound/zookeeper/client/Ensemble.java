package io.tailbound.zookeeper.client;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;

/** An ensemble of stock servers, each a process, on free ports of the loopback interface. */
final class Ensemble implements AutoCloseable {
    private static final Duration START = Duration.ofSeconds(90);

    private final Path folder;
    private final List<String> jvmOptions;
    private final List<Integer> clientPorts;
    private final List<Process> servers = new ArrayList<>();

    private Ensemble(Path folder, List<String> jvmOptions, List<Integer> clientPorts) {
        this.folder = folder;
        this.jvmOptions = jvmOptions;
        this.clientPorts = clientPorts;
    }

    /** Starts servers and returns once a quorum of all of them serves. */
    static Ensemble start(int size, Path folder) throws Exception {
        return start(size, folder, List.of(), List.of());
    }

    /**
     * Starts servers with more configuration.
     *
     * @param lines added to each {@code zoo.cfg}; {@code SECURE_PORT} stands for a free port
     * @param jvmOptions for each server's process
     */
    static Ensemble start(int size, Path folder, List<String> lines, List<String> jvmOptions) throws Exception {
        List<Integer> ports = freePorts(4 * size);
        Ensemble ensemble = new Ensemble(folder, jvmOptions, ports.subList(0, size));
        for (int i = 0; i < size; i++) {
            ensemble.configure(i, ports, lines);
            ensemble.servers.add(ensemble.launch(i));
        }
        try {
            for (int i = 0; i < size; i++) {
                ensemble.awaitService(i);
            }
        } catch (Exception e) {
            ensemble.close();
            throw e;
        }
        return ensemble;
    }

    private void configure(int i, List<Integer> ports, List<String> lines) throws IOException {
        int size = clientPorts.size();
        Path home = Files.createDirectories(folder.resolve("server" + i));
        Files.writeString(home.resolve("myid"), Integer.toString(i));
        List<String> configuration = new ArrayList<>(List.of(
                "dataDir=" + home, "clientPort=" + clientPorts.get(i), "clientPortAddress=127.0.0.1", "tickTime=500",
                "initLimit=40", "syncLimit=20", "maxSessionTimeout=60000", "maxClientCnxns=0", "admin.enableServer=false",
                "4lw.commands.whitelist=srvr"));
        for (int j = 0; size > 1 && j < size; j++) {
            configuration.add("server." + j + "=127.0.0.1:" + ports.get(size + j) + ":" + ports.get(2 * size + j));
        }
        String secure = Integer.toString(ports.get(3 * size + i));
        lines.forEach(line -> configuration.add(line.replace("SECURE_PORT", secure)));
        Files.write(home.resolve("zoo.cfg"), configuration);
        Files.writeString(home.resolve("secure-port"), secure);
    }

    private Process launch(int i) throws IOException {
        Path home = folder.resolve("server" + i);
        List<String> command = new ArrayList<>(List.of(java(), "-Xmx128m", "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1", "-Dtailbound.log=WARN"));
        command.addAll(jvmOptions);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), ServerUntilInputEnds.class.getName(),
                home.resolve("zoo.cfg").toString()));
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(home.resolve("log").toFile()))
                .start();
    }

    /** The launcher of the Java that runs this test. */
    static String java() {
        return System.getProperty("java.home") + File.separator + "bin" + File.separator + "java";
    }

    /** The servers as clients name them. */
    String connectString() {
        return clientPorts.stream().map(port -> "127.0.0.1:" + port).collect(Collectors.joining(","));
    }

    /** The servers' ports for TLS, where their configuration opens one. */
    String secureConnectString() throws IOException {
        List<String> addresses = new ArrayList<>();
        for (int i = 0; i < clientPorts.size(); i++) {
            addresses.add("localhost:" + Files.readString(folder.resolve("server" + i).resolve("secure-port")));
        }
        return String.join(",", addresses);
    }

    /** The server that listens on a client port. */
    int serverAt(int port) {
        return clientPorts.indexOf(port);
    }

    /** Whether a server leads at this moment. */
    boolean leads(int i) {
        return mode(i).contains("Mode: leader");
    }

    /** Kills a server as loss of power would (SIGKILL). */
    void kill(int i) throws InterruptedException {
        servers.get(i).destroyForcibly().waitFor();
    }

    /** Starts a killed server again, and returns once it serves. */
    void restart(int i) throws Exception {
        servers.set(i, launch(i));
        awaitService(i);
    }

    private void awaitService(int i) throws Exception {
        long end = System.nanoTime() + START.toNanos();
        while (!mode(i).contains("Mode: ")) {
            if (System.nanoTime() > end || !servers.get(i).isAlive()) {
                throw new IllegalStateException("server " + i + " does not serve:\n"
                        + Files.readString(folder.resolve("server" + i).resolve("log")));
            }
            Thread.sleep(50);
        }
    }

    private String mode(int i) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), clientPorts.get(i))) {
            socket.setSoTimeout(2000);
            socket.getOutputStream().write("srvr".getBytes(StandardCharsets.US_ASCII));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            return "";
        }
    }

    /** Ports that nobody listens on. */
    static List<Integer> freePorts(int count) throws IOException {
        List<ServerSocket> sockets = new ArrayList<>();
        List<Integer> ports = new ArrayList<>();
        try {
            for (int i = 0; i < count; i++) {
                ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                sockets.add(socket);
                ports.add(socket.getLocalPort());
            }
        } finally {
            for (ServerSocket socket : sockets) {
                socket.close();
            }
        }
        return Collections.unmodifiableList(ports);
    }

    /** Kills every server. */
    @Override
    public void close() throws InterruptedException {
        servers.forEach(Process::destroyForcibly);
        for (Process server : servers) {
            server.waitFor();
        }
    }
}

package io.tailbound.zookeeper.harness.client;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/**
 * One kept-alive HTTP/1.1 connection to the JSON gateway that etcd serves beside gRPC (etcd 3.4,
 * "gRPC gateway"). As bare as the client of ZooKeeper that it is compared with: one socket, one
 * request at a time, nothing retried.
 */
public final class HttpConnection implements Closeable {
    private static final int MAX_BODY_BYTES = 1 << 20;
    private static final int MAX_LINE_BYTES = 8192;

    private final Socket socket;
    private final InputStream input;
    private final String host;

    private HttpConnection(Socket socket, InetSocketAddress address) throws IOException {
        this.socket = socket;
        this.input = new BufferedInputStream(socket.getInputStream());
        this.host = address.getHostString() + ":" + address.getPort();
    }

    /**
     * Connects.
     *
     * @param timeoutMs limit for connecting, and for every read afterwards
     */
    public static HttpConnection open(InetSocketAddress address, int timeoutMs) throws IOException {
        Socket socket = new Socket();
        try {
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(timeoutMs);
            socket.connect(address, timeoutMs);
            return new HttpConnection(socket, address);
        } catch (IOException failed) {
            socket.close();
            throw failed;
        }
    }

    /**
     * Posts a JSON body and waits for the answer's.
     *
     * @throws IOException if the connection fails, times out, or the status is not 200
     */
    public byte[] post(String path, String json) throws IOException {
        byte[] body = json.getBytes(StandardCharsets.UTF_8);
        String head =
                "POST " + path + " HTTP/1.1\r\nHost: " + host
                        + "\r\nContent-Type: application/json\r\nContent-Length: " + body.length
                        + "\r\n\r\n";
        ByteArrayOutputStream request = new ByteArrayOutputStream();
        request.writeBytes(head.getBytes(StandardCharsets.US_ASCII));
        request.writeBytes(body);
        socket.getOutputStream().write(request.toByteArray());
        return readAnswer();
    }

    private byte[] readAnswer() throws IOException {
        String status = readLine();
        int length = -1;
        boolean chunked = false;
        for (String line = readLine(); !line.isEmpty(); line = readLine()) {
            String lower = line.toLowerCase(Locale.ROOT);
            if (lower.startsWith("content-length:")) {
                length = Integer.parseInt(lower.substring(15).strip());
            } else if (lower.startsWith("transfer-encoding:") && lower.contains("chunked")) {
                chunked = true;
            }
        }
        byte[] body = chunked ? readChunks() : readExactly(length);
        if (!status.startsWith("HTTP/1.1 200")) {
            throw new IOException(status + ": " + new String(body, StandardCharsets.UTF_8).strip());
        }
        return body;
    }

    private byte[] readChunks() throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        while (true) {
            int size = Integer.parseInt(readLine().split(";")[0].strip(), 16);
            body.writeBytes(readExactly(size));
            readLine();
            if (size == 0) {
                return body.toByteArray();
            }
        }
    }

    private byte[] readExactly(int length) throws IOException {
        if (length < 0 || length > MAX_BODY_BYTES) {
            throw new IOException("answer with a body of " + length + " bytes");
        }
        byte[] body = input.readNBytes(length);
        if (body.length < length) {
            throw new EOFException("connection closed within an answer");
        }
        return body;
    }

    private String readLine() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = input.read(); next != '\n'; next = input.read()) {
            if (next < 0 || line.size() > MAX_LINE_BYTES) {
                throw new EOFException("connection closed or line too long");
            }
            if (next != '\r') {
                line.write(next);
            }
        }
        return line.toString(StandardCharsets.US_ASCII);
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}

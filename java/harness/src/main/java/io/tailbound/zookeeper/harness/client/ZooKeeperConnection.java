package io.tailbound.zookeeper.harness.client;

import java.io.BufferedInputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.jute.BinaryInputArchive;
import org.apache.jute.BinaryOutputArchive;
import org.apache.jute.Record;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.proto.ConnectRequest;
import org.apache.zookeeper.proto.ConnectResponse;
import org.apache.zookeeper.proto.CreateRequest;
import org.apache.zookeeper.proto.CreateResponse;
import org.apache.zookeeper.proto.GetChildrenRequest;
import org.apache.zookeeper.proto.GetChildrenResponse;
import org.apache.zookeeper.proto.GetDataRequest;
import org.apache.zookeeper.proto.GetDataResponse;
import org.apache.zookeeper.proto.ReplyHeader;
import org.apache.zookeeper.proto.RequestHeader;
import org.apache.zookeeper.proto.SetDataRequest;
import org.apache.zookeeper.proto.SetDataResponse;
import org.apache.zookeeper.proto.SyncRequest;
import org.apache.zookeeper.proto.SyncResponse;

/**
 * One connection of a ZooKeeper session, in the protocol's own terms: no background thread, no hidden
 * retry or delay, one request at a time. ZooKeeper's client sleeps up to a second before it
 * reconnects, which would hide what the servers do.
 */
public final class ZooKeeperConnection implements Closeable {
    private static final int MAX_FRAME_BYTES = 4 << 20;
    private static final int ANY_VERSION = -1;

    private final Socket socket;
    private final DataInputStream input;
    private SessionIdentity identity;
    private int xid;

    private ZooKeeperConnection(Socket socket, SessionIdentity identity) throws IOException {
        this.socket = socket;
        this.input = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
        this.identity = identity;
    }

    /**
     * Connects and creates or resumes a session.
     *
     * @param timeoutMs limit for connecting and for the server's answer
     * @throws SessionExpired if the session to resume is gone
     * @throws IOException if the server cannot be reached or does not serve
     */
    public static ZooKeeperConnection open(
            InetSocketAddress address, SessionIdentity identity, int timeoutMs) throws IOException {
        Socket socket = new Socket();
        try {
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(timeoutMs);
            socket.connect(address, timeoutMs);
            ZooKeeperConnection connection = new ZooKeeperConnection(socket, identity);
            connection.handshake();
            return connection;
        } catch (IOException failed) {
            socket.close();
            throw failed;
        }
    }

    private void handshake() throws IOException {
        byte[] password = identity.password();
        // The highest zxid seen is left at 0: any server may answer.
        send(new ConnectRequest(0, 0, identity.timeoutMs(), identity.id(), password, false));
        ConnectResponse response = new ConnectResponse();
        response.deserialize(BinaryInputArchive.getArchive(receive()), "connect");
        if (response.getTimeOut() <= 0) {
            throw new SessionExpired(identity.id());
        }
        identity =
                new SessionIdentity(
                        response.getSessionId(), response.getPasswd(), response.getTimeOut());
    }

    /** The session, for the next connection. */
    public SessionIdentity identity() {
        return identity;
    }

    /** How long a call waits for its reply. */
    public void setReplyTimeout(int timeoutMs) throws IOException {
        socket.setSoTimeout(timeoutMs);
    }

    /** Creates a persistent znode that everybody may change. */
    public void create(String path, byte[] data) throws IOException, KeeperException {
        var request = new CreateRequest(path, data, ZooDefs.Ids.OPEN_ACL_UNSAFE, 0);
        call(OpCode.create, path, request, new CreateResponse());
    }

    /** Sets a znode's data whatever its version. */
    public Stat setData(String path, byte[] data) throws IOException, KeeperException {
        return setData(path, data, ANY_VERSION);
    }

    /** Sets a znode's data if it has the version. */
    public Stat setData(String path, byte[] data, int version) throws IOException, KeeperException {
        SetDataResponse response = new SetDataResponse();
        call(OpCode.setData, path, new SetDataRequest(path, data, version), response);
        return response.getStat();
    }

    /** Reads a znode from this server's copy, which may be old. */
    public GetDataResponse getData(String path) throws IOException, KeeperException {
        GetDataResponse response = new GetDataResponse();
        call(OpCode.getData, path, new GetDataRequest(path, false), response);
        return response;
    }

    /** The names of a znode's children in this server's copy. */
    public List<String> getChildren(String path) throws IOException, KeeperException {
        GetChildrenResponse response = new GetChildrenResponse();
        call(OpCode.getChildren, path, new GetChildrenRequest(path, false), response);
        return response.getChildren();
    }

    /** Waits until this server has what the leader had when the request reached it. */
    public void sync(String path) throws IOException, KeeperException {
        call(OpCode.sync, path, new SyncRequest(path), new SyncResponse());
    }

    private void call(int operation, String path, Record request, Record response)
            throws IOException, KeeperException {
        int own = ++xid;
        send(new RequestHeader(own, operation), request);
        while (true) {
            BinaryInputArchive archive = BinaryInputArchive.getArchive(receive());
            ReplyHeader header = new ReplyHeader();
            header.deserialize(archive, "header");
            if (header.getXid() < 0) {
                continue; // a notification or a ping's answer
            }
            if (header.getXid() != own) {
                throw new IOException("reply to " + header.getXid() + " where " + own + " is due");
            }
            if (header.getErr() != 0) {
                throw KeeperException.create(KeeperException.Code.get(header.getErr()), path);
            }
            response.deserialize(archive, "response");
            return;
        }
    }

    private void send(Record... records) throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        BinaryOutputArchive archive = BinaryOutputArchive.getArchive(body);
        for (Record record : List.of(records)) {
            record.serialize(archive, "record");
        }
        byte[] bytes = body.toByteArray();
        ByteBuffer frame = ByteBuffer.allocate(Integer.BYTES + bytes.length);
        frame.putInt(bytes.length).put(bytes);
        socket.getOutputStream().write(frame.array());
    }

    private ByteArrayInputStream receive() throws IOException {
        int length = input.readInt();
        if (length < 0 || length > MAX_FRAME_BYTES) {
            throw new IOException("frame of " + length + " bytes");
        }
        byte[] frame = new byte[length];
        input.readFully(frame);
        return new ByteArrayInputStream(frame);
    }

    /** Closes the connection; the session lives on. */
    @Override
    public void close() throws IOException {
        socket.close();
    }
}

package io.tailbound.examples.elearning;

import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Locale;

/** The receiving end of a kept HTTP connection, as far as the warm-up needs it: responses with a length. */
final class KeptConnection {
    static final int OK = 200;
    private static final String LENGTH = "content-length:";
    private static final int STATUS_BEGIN = 9;
    private static final int STATUS_END = 12;

    private final InputStream in;

    KeptConnection(InputStream in) {
        this.in = new BufferedInputStream(in);
    }

    /** Reads a response, and returns its status. */
    int skipResponse() throws IOException {
        String first = line();
        if (first.length() < STATUS_END) {
            throw new IOException("no HTTP response: " + first);
        }
        int status = Integer.parseInt(first.substring(STATUS_BEGIN, STATUS_END));
        long length = 0;
        for (String field = line(); !field.isEmpty(); field = line()) {
            if (field.toLowerCase(Locale.ROOT).startsWith(LENGTH)) {
                length = Long.parseLong(field.substring(LENGTH.length()).strip());
            }
        }
        in.skipNBytes(length);
        return status;
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int one = in.read(); one != '\n'; one = in.read()) {
            if (one < 0) {
                throw new EOFException("the connection was closed");
            }
            line.append((char) one);
        }
        return line.toString().strip();
    }
}

package io.tailbound.examples.elearning;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

class WarmUpGateTest {
    private static KeptConnection receiving(String text) {
        return new KeptConnection(new ByteArrayInputStream(text.getBytes(StandardCharsets.US_ASCII)));
    }

    @Test
    void aStepOfAWalkIsTwoRequests() {
        assertEquals(
                List.of("/position?lat=45.463660&lon=9.128094", "/content?id=108621"),
                WarmUpGate.paths(List.of("session,step,lat,lon,id", "0,0,45.463660,9.128094,108621")));
    }

    @Test
    void responsesFollowEachOtherOnOneConnection() throws IOException {
        KeptConnection connection = receiving("HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello"
                + "HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\nHTTP/1.1 200\r\n");
        assertEquals(200, connection.skipResponse());
        assertEquals(404, connection.skipResponse());
        assertThrows(EOFException.class, connection::skipResponse);
    }

    @Test
    void anErrorIsASentenceInJson() {
        String body = new String(QueryServlet.Body.error(400, "lat is \"a\\b\"\n").bytes(), StandardCharsets.UTF_8);
        assertEquals("{\"error\":\"lat is \\\"a\\\\b\\\" \"}\n", body);
    }
}

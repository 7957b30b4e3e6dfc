/*
 * Mutated frames into the C agent without a connection, so many and from one seed; the sanitizers that
 * it is compiled with judge. COUNT SEED
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tailbound_agent.h"

static uint64_t state;

static uint32_t draw(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % below;
}

static uint64_t now_ns(void) {
    static uint64_t now;
    return ++now;
}

static const char *call(void *context) {
    (void)context;
    return draw(4) == 0 ? "not now" : NULL;
}

static const char *const payloads[] = {
    "{\"order\":\"welcome\",\"domain\":\"camera\",\"mode\":\"idle\",\"change\":1}",
    "{\"order\":\"change\",\"change\":5,\"mode\":\"run\",\"start\":[\"b\",\"c\"],\"stop\":[\"a\"]}",
    "{\"order\":\"change\",\"change\":6,\"mode\":\"idle\",\"start\":[\"a\"],\"stop\":[\"b\",\"c\",\"b\"]}",
    "{\"order\":\"withdraw\",\"change\":6}",
    "{\"order\":\"ping\",\"nonce\":18446744073709551615}",
    "{\"order\":\"refused\",\"mode\":\"run\",\"reason\":\"\\u00e4\\ud83d\\ude00\\n \\\"no\\\"\"}",
    "{\"new\":[{\"a\":[1.5e3,true,null]},-0.1],\"order\":\"withdraw\",\"change\":6}",
};

/* A frame with a few bytes changed, dropped or repeated; the length in its header is mostly right. */
static size_t make_frame(uint8_t frame[1024]) {
    static const char bytes[] = "{}[]\",:\\u0189dea.-+Eeln\x01\xc3\xf0\x9f";
    const char *payload = payloads[draw(sizeof payloads / sizeof *payloads)];
    size_t length = strlen(payload);
    uint8_t *body = frame + 8;
    memcpy(body, payload, length);
    for (uint32_t mutation = draw(4); mutation > 0; mutation--) {
        size_t place = draw((uint32_t)length), count = draw(8) + 1u;
        count = count < length - place ? count : length - place - 1;
        switch (draw(3)) {
        case 0:
            body[place] = (uint8_t)bytes[draw(sizeof bytes)];
            break;
        case 1:
            memmove(body + place, body + place + count, length - place - count);
            length -= count;
            break;
        default:
            memmove(body + place + count, body + place, length - place);
            length += count;
        }
    }
    uint8_t header[8] = {'T', 'M', 0, TAILBOUND_PROTOCOL_VERSION, 0, 0, (uint8_t)(length >> 8), (uint8_t)length};
    if (draw(20) == 0) {
        header[draw(8)] = (uint8_t)draw(256);
    }
    memcpy(frame, header, sizeof header);
    return length + 8;
}

int main(int count, char **arguments) {
    static struct tailbound_task tasks[] = {
        {.name = "a", .stop = call, .start = call, .started = true},
        {.name = "b", .stop = call, .start = call},
        {.name = "c", .stop = call, .start = call},
    };
    static uint8_t in[TAILBOUND_IN_BYTES(3)], out[TAILBOUND_OUT_BYTES(3)];
    static struct tailbound_agent agent;
    struct tailbound_agent_config config = {
        .domain = "camera", .tasks = tasks, .task_count = 3, .now_ns = now_ns, .clock = "monotonic",
        .boot = "fuzz", .in = in, .out = out, .in_bytes = sizeof in, .out_bytes = sizeof out};
    long rounds = count == 3 ? atol(arguments[1]) : 0;
    state = count == 3 ? strtoull(arguments[2], NULL, 10) | 1 : 1;
    if (tailbound_agent_init(&agent, &config) != TAILBOUND_OK) {
        return 2;
    }
    long taken = 0, refused = 0;
    tailbound_agent_connected(&agent);
    for (long round = 0; round < rounds; round++) {
        uint8_t frame[1024];
        size_t length = make_frame(frame), done = 0, to_send;
        enum tailbound_status status = TAILBOUND_OK;
        while (done < length && status == TAILBOUND_OK) {
            size_t room, piece = 1 + draw((uint32_t)(length - done));
            uint8_t *to = tailbound_agent_room(&agent, &room);
            piece = piece < room ? piece : room;
            memcpy(to, frame + done, piece);
            done += piece;
            status = tailbound_agent_received(&agent, piece, now_ns());
            tailbound_agent_to_send(&agent, &to_send);
            tailbound_agent_sent(&agent, draw((uint32_t)to_send + 1));
        }
        *(status == TAILBOUND_OK ? &taken : &refused) += 1;
        if (status != TAILBOUND_OK || draw(50) == 0) {
            tailbound_agent_connected(&agent);
        }
    }
    printf("%ld taken, %ld refused\n", taken, refused);
    return taken > rounds / 20 && refused > rounds / 20 ? 0 : 1;
}

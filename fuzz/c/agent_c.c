/*
 * The agent in C against a host that says anything. As for agent_session: the first byte has switches fail,
 * and each line after it is the payload of a frame, unless it begins with a zero byte.
 *
 * Two agents hear the same, one of it all at once, the other in parts: they say the same and have the same
 * tasks started. What they say are whole frames of the protocol.
 */
#include "tailbound_agent.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TASKS 3u
/* More than any stream of a fuzzer becomes. */
#define STREAM_BYTES (1u << 20)

struct subject {
    struct tailbound_task tasks[TASKS];
    uint8_t in[TAILBOUND_IN_BYTES(TASKS)], out[TAILBOUND_OUT_BYTES(TASKS)];
    struct tailbound_agent_config config;
    struct tailbound_agent agent;
    unsigned turn, failures;
    uint8_t *said;
    size_t said_bytes;
    enum tailbound_status status;
};

static uint64_t no_time(void) { return 7; }

static const char *call(void *context) {
    struct subject *subject = context;
    subject->turn++;
    return (subject->failures >> (subject->turn % 8u)) & 1u ? "refused" : NULL;
}

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

static struct subject *make(unsigned failures, uint8_t *said) {
    static const char *const names[TASKS] = {"a", "b", "c"};
    struct subject *subject = calloc(1, sizeof *subject);
    check(subject != NULL, "memory");
    subject->failures = failures;
    for (size_t place = 0; place < TASKS; place++) {
        struct tailbound_task task = {names[place], place < 2, call, call, subject};
        subject->tasks[place] = task;
    }
    struct tailbound_agent_config config = {
        .domain = "camera", .tasks = subject->tasks, .task_count = TASKS, .now_ns = no_time,
        .clock = "monotonic", .boot = "boot", .in = subject->in, .out = subject->out,
        .in_bytes = sizeof subject->in, .out_bytes = sizeof subject->out,
    };
    subject->config = config;
    subject->said = said;
    check(tailbound_agent_init(&subject->agent, &subject->config) == TAILBOUND_OK, "it is made");
    tailbound_agent_connected(&subject->agent);
    return subject;
}

/* Sends what there is; the other end takes everything. */
static void flush(struct subject *subject) {
    size_t bytes = 0;
    const uint8_t *out = tailbound_agent_to_send(&subject->agent, &bytes);
    check(subject->said_bytes + bytes <= STREAM_BYTES, "it says no more than it is asked for");
    memcpy(subject->said + subject->said_bytes, out, bytes);
    subject->said_bytes += bytes;
    tailbound_agent_sent(&subject->agent, bytes);
}

/* Has it hear a stream, in parts of at most so many bytes. */
static void hear(struct subject *subject, const uint8_t *stream, size_t bytes, size_t most) {
    flush(subject);
    while (subject->status == TAILBOUND_OK && bytes > 0) {
        size_t room = 0;
        uint8_t *place = tailbound_agent_room(&subject->agent, &room);
        size_t part = room < most ? room : most;
        part = part < bytes ? part : bytes;
        if (part > 0) {
            memcpy(place, stream, part);
            stream += part;
            bytes -= part;
        }
        subject->status = tailbound_agent_received(&subject->agent, part, 5);
        size_t waiting = 0;
        tailbound_agent_to_send(&subject->agent, &waiting);
        check(subject->status != TAILBOUND_OK || part > 0 || waiting > 0, "it goes on");
        flush(subject);
    }
    /* Messages wait while there is no room for their answers. */
    for (int more = 0; subject->status == TAILBOUND_OK && more < 64; more++) {
        subject->status = tailbound_agent_received(&subject->agent, 0, 5);
        flush(subject);
    }
}

static void says_frames(const struct subject *subject) {
    size_t at = 0;
    while (at < subject->said_bytes) {
        const uint8_t *frame = subject->said + at;
        check(subject->said_bytes - at >= 8, "a whole header");
        check(memcmp(frame, "TM\0\1", 4) == 0, "the header of the protocol");
        size_t length = (size_t)frame[4] << 24 | (size_t)frame[5] << 16 | (size_t)frame[6] << 8 | frame[7];
        check(length <= 65536 && length <= subject->said_bytes - at - 8, "a whole payload");
        check(length > 1 && frame[8] == '{' && frame[8 + length - 1] == '}', "an object");
        at += 8 + length;
    }
}

static size_t frames(const uint8_t *data, size_t size, uint8_t *stream) {
    size_t length = 0, begin = 0;
    while (begin <= size) {
        const uint8_t *end = size > begin ? memchr(data + begin, '\n', size - begin) : NULL;
        size_t line = end ? (size_t)(end - data) - begin : size - begin;
        const uint8_t *from = data + begin;
        if (line > 0 && from[0] == 0) {
            memcpy(stream + length, from + 1, line - 1);
            length += line - 1;
        } else {
            uint8_t header[8] = {'T', 'M', 0, 1, 0, (uint8_t)(line >> 16), (uint8_t)(line >> 8), (uint8_t)line};
            memcpy(stream + length, header, sizeof header);
            length += sizeof header;
            memcpy(stream + length, from, line);
            length += line;
        }
        begin += line + 1;
    }
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > 16384) return 0;
    unsigned failures = data[0] & 1u ? data[0] : 0;
    uint8_t *stream = malloc(16384 * 10);
    check(stream != NULL, "memory");
    size_t bytes = frames(data + 1, size - 1, stream);
    static uint8_t said[2][STREAM_BYTES];
    struct subject *whole = make(failures, said[0]), *parts = make(failures, said[1]);
    hear(whole, stream, bytes, SIZE_MAX);
    hear(parts, stream, bytes, 1 + data[0] % 7u);
    says_frames(whole);
    check(whole->status == parts->status, "how it ends does not depend on the parts");
    check(whole->said_bytes == parts->said_bytes, "nor how much it says");
    check(memcmp(whole->said, parts->said, whole->said_bytes) == 0, "nor what");
    for (size_t place = 0; place < TASKS; place++)
        check(whole->tasks[place].started == parts->tasks[place].started, "nor what runs");
    /* Words of descriptions. */
    char text[256];
    size_t length = size - 1 < sizeof text - 1 ? size - 1 : sizeof text - 1;
    memcpy(text, data + 1, length);
    text[length] = 0;
    if (tailbound_is_name(text)) check(strlen(text) <= TAILBOUND_NAME_BYTES, "a name is not too long");
    free(whole);
    free(parts);
    free(stream);
    return 0;
}

/* The messages of the protocol as bytes: private to the library. */
#ifndef TAILBOUND_WIRE_H
#define TAILBOUND_WIRE_H

#include "tailbound_agent.h"

#define HEADER_BYTES 8u
#define PAYLOAD_BYTES_MAX (64u * 1024u)
/* The most tasks in one list on the wire. */
#define LIST_MAX 256u

/* Bytes that are still to be read. */
struct span {
    const uint8_t *at, *end;
};

enum order { ORDER_WELCOME, ORDER_CHANGE, ORDER_WITHDRAW, ORDER_PING, ORDER_REFUSED };

/* A message of the host. */
struct host_message {
    enum order order;
    /* The change, or the nonce of a ping. */
    uint64_t number;
    char domain[TAILBOUND_NAME_BYTES + 1];
    /* Empty for none. */
    char mode[TAILBOUND_NAME_BYTES + 1];
    char reason[TAILBOUND_TEXT_BYTES + 1];
    /* The lists of a change, for next_name; their names have been looked at. */
    struct span stop, start;
};

/* Reads the message in a payload; false if it holds none. */
bool read_message(struct span payload, struct host_message *message);

/* The next name of a list; false at its end. */
bool next_name(struct span *list, char name[TAILBOUND_NAME_BYTES + 1]);

/* Writes JSON into a buffer; what does not fit is noted and dropped. */
struct writer {
    uint8_t *to;
    size_t bytes, used;
    bool overflowed;
};

void write_text(struct writer *writer, const char *text);
void write_number(struct writer *writer, uint64_t number);
/* In quotation marks, escaped, cut to TAILBOUND_TEXT_BYTES. */
void write_string(struct writer *writer, const char *text);

/* How much of a text is taken: TAILBOUND_TEXT_BYTES at most, whole characters, UTF-8 alone. */
size_t text_length(const char *text);

#endif

/*
 * Outcomes of the functions of libtailbound.
 */
#ifndef TAILBOUND_STATUS_H
#define TAILBOUND_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TAILBOUND_OK = 0,
    /* An argument has no meaning: NULL, a text that is no UTF-8, a number that stands for nothing. */
    TAILBOUND_INVALID = -1,
    /* Another call uses the handle. */
    TAILBOUND_BUSY = -2,
    /* The transport lacks a quality of the topic. */
    TAILBOUND_LACKS = -3,
    /* The contract of the topic has no meaning. */
    TAILBOUND_CONTRACT_FAULT = -4,
    /* The message breaks the contract of its publisher, and was not sent. */
    TAILBOUND_CONTRACT_BROKEN = -5,
    /* The message is longer than the topic or the port admits, or than the room for a copy. */
    TAILBOUND_TOO_LONG = -6,
    /* The kernel or the middleware refused. */
    TAILBOUND_REFUSED = -7,
    /* The library was built without this transport. */
    TAILBOUND_ABSENT = -8,
    /* An error of the library. The handle is of no more use but to be closed. */
    TAILBOUND_INTERNAL = -9,
    /* This program inherited no port of that name, or the descriptor is of no port. */
    TAILBOUND_NO_PORT = -10,
    /* As many messages wait as the port holds; the message was not sent. */
    TAILBOUND_FULL = -11,
    /* The writer wrote so often during the read that no message stayed in place. */
    TAILBOUND_OVERTAKEN = -12,
    /* The other side of the port wrote what cannot be. */
    TAILBOUND_GARBLED = -13
};

/* The text of the last failed call of this thread; valid until the next failure of a call of this thread. */
const char *tailbound_last_error(void);
/* The name of a status, such as "LACKS"; "OK" from 0 on, and "UNKNOWN" of a number that is no status. */
const char *tailbound_status_name(int status);

#ifdef __cplusplus
}
#endif

#endif

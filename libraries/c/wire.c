/* Reads and writes the JSON of the protocol, without recursion beyond a bound and without allocation. */
#include "wire.h"

#include <string.h>

/* How deep values that are passed over may be nested. */
#define DEPTH_MAX 16

static void skip_space(struct span *span) {
    while (span->at < span->end &&
           (*span->at == ' ' || *span->at == '\t' || *span->at == '\n' || *span->at == '\r')) {
        span->at++;
    }
}

/* Takes a byte, after space, if it is the next one. */
static bool take(struct span *span, char byte) {
    skip_space(span);
    if (span->at < span->end && *span->at == (uint8_t)byte) {
        span->at++;
        return true;
    }
    return false;
}

/* Where a decoded string goes: what does not fit is counted and dropped. */
struct sink {
    char *to;
    size_t bytes, used;
};

static void put(struct sink *sink, uint8_t byte) {
    if (sink->used < sink->bytes) {
        sink->to[sink->used] = (char)byte;
    }
    sink->used++;
}

static void put_character(struct sink *sink, uint32_t code) {
    if (code < 0x80) {
        put(sink, (uint8_t)code);
    } else if (code < 0x800) {
        put(sink, (uint8_t)(0xc0 | code >> 6));
        put(sink, (uint8_t)(0x80 | (code & 0x3f)));
    } else if (code < 0x10000) {
        put(sink, (uint8_t)(0xe0 | code >> 12));
        put(sink, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
        put(sink, (uint8_t)(0x80 | (code & 0x3f)));
    } else {
        put(sink, (uint8_t)(0xf0 | code >> 18));
        put(sink, (uint8_t)(0x80 | (code >> 12 & 0x3f)));
        put(sink, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
        put(sink, (uint8_t)(0x80 | (code & 0x3f)));
    }
}

/* The four digits of \uXXXX. */
static bool take_digits(struct span *span, uint32_t *code) {
    *code = 0;
    for (int digit = 0; digit < 4; digit++) {
        if (span->at == span->end) {
            return false;
        }
        uint8_t byte = *span->at++;
        uint32_t value;
        if (byte >= '0' && byte <= '9') {
            value = byte - '0';
        } else if (byte >= 'a' && byte <= 'f') {
            value = byte - 'a' + 10u;
        } else if (byte >= 'A' && byte <= 'F') {
            value = byte - 'A' + 10u;
        } else {
            return false;
        }
        *code = *code << 4 | value;
    }
    return true;
}

static bool take_escape(struct span *span, struct sink *sink) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (span->at == span->end) {
        return false;
    }
    char byte = (char)*span->at++;
    if (byte != 'u') {
        const char *found = byte == '\0' ? NULL : strchr(names, byte);
        if (found == NULL) {
            return false;
        }
        put(sink, (uint8_t)values[found - names]);
        return true;
    }
    uint32_t code, low;
    if (!take_digits(span, &code) || (code >= 0xdc00 && code < 0xe000)) {
        return false;
    }
    if (code >= 0xd800 && code < 0xdc00) {
        if (span->end - span->at < 2 || span->at[0] != '\\' || span->at[1] != 'u') {
            return false;
        }
        span->at += 2;
        if (!take_digits(span, &low) || low < 0xdc00 || low >= 0xe000) {
            return false;
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    put_character(sink, code);
    return true;
}

/* How many bytes the UTF-8 character at `at` has; 0 if it is none. */
static size_t character_length(const uint8_t *at, size_t left) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = at[0];
    size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : 4;
    if (length == 1) {
        return 1;
    }
    if (length > left || first >= 0xf8 || (first & 0xc0) == 0x80) {
        return 0;
    }
    uint32_t code = first & (0xffu >> (length + 1));
    for (size_t place = 1; place < length; place++) {
        if ((at[place] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (at[place] & 0x3fu);
    }
    bool valid = code >= least[length] && code < 0x110000 && (code < 0xd800 || code >= 0xe000);
    return valid ? length : 0;
}

/* Decodes a string; `to` may be null, and holds a text of at most `bytes` bytes. False if it is none. */
static bool take_string(struct span *span, char *to, size_t bytes, size_t *length) {
    struct sink sink = {to, to == NULL ? 0 : bytes, 0};
    if (!take(span, '"')) {
        return false;
    }
    while (span->at < span->end) {
        uint8_t byte = *span->at;
        if (byte == '"') {
            span->at++;
            if (to != NULL) {
                to[sink.used < bytes ? sink.used : bytes] = '\0';
            }
            *length = sink.used;
            return true;
        }
        if (byte < 0x20) {
            return false;
        }
        if (byte == '\\') {
            span->at++;
            if (!take_escape(span, &sink)) {
                return false;
            }
            continue;
        }
        size_t whole = character_length(span->at, (size_t)(span->end - span->at));
        if (whole == 0) {
            return false;
        }
        for (size_t place = 0; place < whole; place++) {
            put(&sink, *span->at++);
        }
    }
    return false;
}

static bool is_digit(const struct span *span) {
    return span->at < span->end && *span->at >= '0' && *span->at <= '9';
}

static bool skip_digits(struct span *span) {
    if (!is_digit(span)) {
        return false;
    }
    while (is_digit(span)) {
        span->at++;
    }
    return true;
}

static bool skip_number(struct span *span) {
    if (span->at < span->end && *span->at == '-') {
        span->at++;
    }
    if (span->at < span->end && *span->at == '0') {
        span->at++;
    } else if (!skip_digits(span)) {
        return false;
    }
    if (span->at < span->end && *span->at == '.') {
        span->at++;
        if (!skip_digits(span)) {
            return false;
        }
    }
    if (span->at < span->end && (*span->at == 'e' || *span->at == 'E')) {
        span->at++;
        if (span->at < span->end && (*span->at == '+' || *span->at == '-')) {
            span->at++;
        }
        return skip_digits(span);
    }
    return true;
}

static bool skip_word(struct span *span, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(span->end - span->at) < length || memcmp(span->at, word, length) != 0) {
        return false;
    }
    span->at += length;
    return true;
}

/* Passes a value over, and checks that it is one. */
static bool skip_value(struct span *span, int depth) {
    size_t length;
    skip_space(span);
    if (span->at == span->end || depth > DEPTH_MAX) {
        return false;
    }
    switch (*span->at) {
    case '"':
        return take_string(span, NULL, 0, &length);
    case 't':
        return skip_word(span, "true");
    case 'f':
        return skip_word(span, "false");
    case 'n':
        return skip_word(span, "null");
    case '[':
    case '{':
        break;
    default:
        return skip_number(span);
    }
    bool is_object = *span->at++ == '{';
    char close = is_object ? '}' : ']';
    if (take(span, close)) {
        return true;
    }
    do {
        if (is_object && !(take_string(span, NULL, 0, &length) && take(span, ':'))) {
            return false;
        }
        if (!skip_value(span, depth + 1)) {
            return false;
        }
    } while (take(span, ','));
    return take(span, close);
}

static bool take_u64(struct span span, uint64_t *number) {
    *number = 0;
    if (!is_digit(&span)) {
        return false;
    }
    for (; span.at < span.end; span.at++) {
        if (!is_digit(&span)) {
            return false;
        }
        uint64_t digit = (uint64_t)(*span.at - '0');
        if (*number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *number = *number * 10 + digit;
    }
    return true;
}

static bool is_name(const char *text, size_t length) {
    if (length == 0 || length > TAILBOUND_NAME_BYTES) {
        return false;
    }
    for (size_t place = 0; place < length; place++) {
        char byte = text[place];
        bool plain = (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9');
        if (!plain && (place == 0 || (byte != '-' && byte != '_' && byte != '.'))) {
            return false;
        }
    }
    return true;
}

bool tailbound_is_name(const char *text) {
    return is_name(text, strlen(text));
}

static bool take_name(struct span *span, char name[TAILBOUND_NAME_BYTES + 1]) {
    size_t length;
    return take_string(span, name, TAILBOUND_NAME_BYTES, &length) && is_name(name, length);
}

bool next_name(struct span *list, char name[TAILBOUND_NAME_BYTES + 1]) {
    return (take(list, '[') || take(list, ',')) && take_name(list, name);
}

/* Whether a value is a list of names, not too long. */
static bool is_list(struct span list) {
    char name[TAILBOUND_NAME_BYTES + 1];
    if (list.at == list.end || *list.at != '[') {
        return false;
    }
    struct span empty = {list.at + 1, list.end};
    if (take(&empty, ']')) {
        return true;
    }
    size_t count = 0;
    while (next_name(&list, name)) {
        count++;
    }
    return count <= LIST_MAX && take(&list, ']');
}

enum key { KEY_ORDER, KEY_DOMAIN, KEY_MODE, KEY_CHANGE, KEY_NONCE, KEY_START, KEY_STOP, KEY_REASON, KEYS };

/* Where the values of the known keys are; those of others are passed over. */
static bool find_values(struct span payload, struct span values[KEYS]) {
    static const char *const names[KEYS] = {"order", "domain", "mode", "change",
                                            "nonce", "start",  "stop", "reason"};
    char key[16];
    size_t length;
    if (!take(&payload, '{')) {
        return false;
    }
    do {
        if (!take_string(&payload, key, sizeof key - 1, &length) || !take(&payload, ':')) {
            return false;
        }
        skip_space(&payload);
        struct span value = {payload.at, payload.at};
        if (!skip_value(&payload, 1)) {
            return false;
        }
        value.end = payload.at;
        for (size_t known = 0; known < KEYS; known++) {
            if (length != strlen(names[known]) || memcmp(key, names[known], length) != 0) {
                continue;
            }
            if (values[known].at != NULL) {
                return false;
            }
            values[known] = value;
        }
    } while (take(&payload, ','));
    if (!take(&payload, '}')) {
        return false;
    }
    skip_space(&payload);
    return payload.at == payload.end;
}

static bool read_order(struct span value, enum order *order) {
    static const char *const names[] = {"welcome", "change", "withdraw", "ping", "refused"};
    char text[16];
    size_t length;
    if (value.at == NULL || !take_string(&value, text, sizeof text - 1, &length)) {
        return false;
    }
    for (size_t known = 0; known < sizeof names / sizeof *names; known++) {
        if (length == strlen(names[known]) && memcmp(text, names[known], length) == 0) {
            *order = (enum order)known;
            return true;
        }
    }
    return false;
}

static bool read_name(struct span value, char name[TAILBOUND_NAME_BYTES + 1]) {
    return value.at != NULL && take_name(&value, name);
}

static bool read_number(struct span value, uint64_t *number) {
    return value.at != NULL && take_u64(value, number);
}

bool read_message(struct span payload, struct host_message *message) {
    struct span values[KEYS];
    size_t length;
    memset(values, 0, sizeof values);
    memset(message, 0, sizeof *message);
    if (!find_values(payload, values) || !read_order(values[KEY_ORDER], &message->order)) {
        return false;
    }
    struct span mode = values[KEY_MODE], reason = values[KEY_REASON];
    message->stop = values[KEY_STOP];
    message->start = values[KEY_START];
    switch (message->order) {
    case ORDER_WELCOME:
        if (mode.at != NULL && *mode.at != 'n' && !read_name(mode, message->mode)) {
            return false;
        }
        return read_name(values[KEY_DOMAIN], message->domain) &&
               read_number(values[KEY_CHANGE], &message->number);
    case ORDER_CHANGE:
        return read_name(mode, message->mode) && read_number(values[KEY_CHANGE], &message->number) &&
               message->stop.at != NULL && message->start.at != NULL && is_list(message->stop) &&
               is_list(message->start);
    case ORDER_WITHDRAW:
        return read_number(values[KEY_CHANGE], &message->number);
    case ORDER_PING:
        return read_number(values[KEY_NONCE], &message->number);
    case ORDER_REFUSED:
        return read_name(mode, message->mode) && reason.at != NULL &&
               take_string(&reason, message->reason, TAILBOUND_TEXT_BYTES, &length) &&
               length <= TAILBOUND_TEXT_BYTES;
    }
    return false;
}

static void write_bytes(struct writer *writer, const void *bytes, size_t count) {
    if (count > writer->bytes - writer->used) {
        writer->overflowed = true;
        return;
    }
    memcpy(writer->to + writer->used, bytes, count);
    writer->used += count;
}

void write_text(struct writer *writer, const char *text) {
    write_bytes(writer, text, strlen(text));
}

void write_number(struct writer *writer, uint64_t number) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    write_bytes(writer, digits + at, sizeof digits - at);
}

size_t text_length(const char *text) {
    size_t left = 0, length = 0;
    while (left <= TAILBOUND_TEXT_BYTES && text[left] != '\0') {
        left++;
    }
    while (length < left) {
        size_t whole = character_length((const uint8_t *)text + length, left - length);
        if (whole == 0 || length + whole > TAILBOUND_TEXT_BYTES) {
            break;
        }
        length += whole;
    }
    return length;
}

void write_string(struct writer *writer, const char *text) {
    static const char digits[] = "0123456789abcdef";
    size_t length = text_length(text);
    write_text(writer, "\"");
    for (size_t place = 0; place < length; place++) {
        uint8_t byte = (uint8_t)text[place];
        if (byte == '"' || byte == '\\') {
            char escaped[2] = {'\\', (char)byte};
            write_bytes(writer, escaped, sizeof escaped);
        } else if (byte < 0x20) {
            char escaped[6] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
            write_bytes(writer, escaped, sizeof escaped);
        } else {
            write_bytes(writer, &byte, 1);
        }
    }
    write_text(writer, "\"");
}

/* What the agent does with what the host tells it, as crates/modes/src/agent/session.rs has it. */
#include "wire.h"

#include <string.h>

/* What an answer takes at most: a text of which each byte is escaped, and the rest of it. */
#define ANSWER_BYTES (TAILBOUND_TEXT_BYTES * 6u + 256u)

/* A text that is put together from pieces, and cut where it is too long. */
struct text {
    char *to;
    size_t used;
};

static void append(struct text *text, const char *piece) {
    size_t length = strlen(piece), left = TAILBOUND_TEXT_BYTES - text->used;
    length = length < left ? length : left;
    memcpy(text->to + text->used, piece, length);
    text->used += length;
    text->to[text->used] = '\0';
}

static void tell(const struct tailbound_agent *agent, enum tailbound_event event, const char *told) {
    if (agent->config->on_event != NULL) {
        agent->config->on_event(agent->config->event_context, event, told);
    }
}

static struct tailbound_task *task_at(const struct tailbound_agent *agent, uint16_t place) {
    return &agent->config->tasks[place];
}

/* The frame of a message goes to the end of what is to be sent. */
static struct writer begin_frame(const struct tailbound_agent *agent) {
    const struct tailbound_agent_config *config = agent->config;
    struct writer writer = {config->out + agent->out_used, config->out_bytes - agent->out_used,
                            HEADER_BYTES, false};
    if (writer.bytes < HEADER_BYTES) {
        writer.bytes = writer.used = 0;
        writer.overflowed = true;
    }
    return writer;
}

static bool end_frame(struct tailbound_agent *agent, struct writer *writer) {
    if (writer->overflowed) {
        return false;
    }
    uint32_t length = (uint32_t)(writer->used - HEADER_BYTES);
    uint8_t header[HEADER_BYTES] = {'T',
                                    'M',
                                    TAILBOUND_PROTOCOL_VERSION >> 8 & 0xff,
                                    TAILBOUND_PROTOCOL_VERSION & 0xff,
                                    (uint8_t)(length >> 24),
                                    (uint8_t)(length >> 16),
                                    (uint8_t)(length >> 8),
                                    (uint8_t)length};
    memcpy(writer->to, header, sizeof header);
    agent->out_used += writer->used;
    return true;
}

static void write_tasks(struct writer *writer, const struct tailbound_agent *agent, bool only_started) {
    bool first = true;
    write_text(writer, "[");
    for (size_t place = 0; place < agent->config->task_count; place++) {
        const struct tailbound_task *task = &agent->config->tasks[place];
        if (only_started && !task->started) {
            continue;
        }
        write_text(writer, first ? "" : ",");
        write_string(writer, task->name);
        first = false;
    }
    write_text(writer, "]");
}

static bool say_hello(struct tailbound_agent *agent) {
    const struct tailbound_agent_config *config = agent->config;
    struct writer writer = begin_frame(agent);
    write_text(&writer, "{\"report\":\"hello\",\"domain\":");
    write_string(&writer, config->domain);
    write_text(&writer, ",\"agent\":\"tailbound-agent-c 1\",\"clock\":{\"id\":");
    write_string(&writer, config->clock);
    write_text(&writer, ",\"boot\":");
    write_string(&writer, config->boot);
    write_text(&writer, "},\"tasks\":");
    write_tasks(&writer, agent, false);
    write_text(&writer, ",\"started\":");
    write_tasks(&writer, agent, true);
    write_text(&writer, ",\"change\":");
    write_number(&writer, agent->has_decided ? agent->decided.change : 0);
    write_text(&writer, ",\"mode\":");
    if (agent->mode[0] == '\0') {
        write_text(&writer, "null");
    } else {
        write_string(&writer, agent->mode);
    }
    write_text(&writer, "}");
    return end_frame(agent, &writer);
}

static void say_failed(struct tailbound_agent *agent, uint64_t change, const char *reason,
                       bool rolled_back) {
    struct writer writer = begin_frame(agent);
    write_text(&writer, "{\"report\":\"failed\",\"change\":");
    write_number(&writer, change);
    write_text(&writer, ",\"reason\":");
    write_string(&writer, reason);
    write_text(&writer, rolled_back ? ",\"rolled_back\":true}" : ",\"rolled_back\":false}");
    end_frame(agent, &writer);
}

static bool is_empty(const struct tailbound_lists *lists) {
    return lists->stops == 0 && lists->starts == 0;
}

/* Says the answer to the newest change. */
static void say_decided(struct tailbound_agent *agent) {
    const struct tailbound_decided *decided = &agent->decided;
    if (decided->outcome == TAILBOUND_HAS_FAILED) {
        say_failed(agent, decided->change, decided->reason, is_empty(&decided->back));
        return;
    }
    bool held = decided->outcome == TAILBOUND_HELD;
    struct writer writer = begin_frame(agent);
    write_text(&writer, held ? "{\"report\":\"done\",\"change\":" : "{\"report\":\"withdrawn\",\"change\":");
    write_number(&writer, decided->change);
    write_text(&writer, ",\"received_ns\":");
    write_number(&writer, decided->received_ns);
    write_text(&writer, ",\"switched_ns\":");
    write_number(&writer, decided->switched_ns);
    write_text(&writer, "}");
    end_frame(agent, &writer);
}

static void say_pong(struct tailbound_agent *agent, uint64_t nonce) {
    struct writer writer = begin_frame(agent);
    write_text(&writer, "{\"report\":\"pong\",\"nonce\":");
    write_number(&writer, nonce);
    write_text(&writer, "}");
    end_frame(agent, &writer);
}

static void fail_at(struct text *reason, const struct tailbound_task *task, const char *why) {
    append(reason, "task \"");
    append(reason, task->name);
    append(reason, "\": ");
    append(reason, why);
}

static bool contains(const uint16_t *places, uint16_t count, uint16_t place) {
    for (uint16_t index = 0; index < count; index++) {
        if (places[index] == place) {
            return true;
        }
    }
    return false;
}

/* Stops, then starts; how many of both were begun. What fails half-way counts as begun. */
static bool carry_out(const struct tailbound_agent *agent, const struct tailbound_lists *lists,
                      uint16_t *stops, uint16_t *starts, struct text *reason) {
    const char *why = NULL;
    *stops = *starts = 0;
    while (*stops < lists->stops && why == NULL) {
        struct tailbound_task *task = task_at(agent, lists->stop[(*stops)++]);
        why = task->stop(task->context);
        if (why != NULL) {
            fail_at(reason, task, why);
        }
    }
    while (*starts < lists->starts && why == NULL) {
        struct tailbound_task *task = task_at(agent, lists->start[(*starts)++]);
        why = task->start(task->context);
        if (why != NULL) {
            fail_at(reason, task, why);
        }
    }
    return why == NULL;
}

/* Puts back what was begun, starts before stops, so that old and new tasks do not run together. */
static void put_back(const struct tailbound_agent *agent, const struct tailbound_lists *lists,
                     uint16_t stops, uint16_t starts, struct tailbound_lists *unrestored) {
    while (starts-- > 0) {
        uint16_t place = lists->start[starts];
        struct tailbound_task *task = task_at(agent, place);
        if (!task->started && task->stop(task->context) != NULL) {
            task->started = true;
            unrestored->stop[unrestored->stops++] = place;
        }
    }
    while (stops-- > 0) {
        uint16_t place = lists->stop[stops];
        struct tailbound_task *task = task_at(agent, place);
        if (task->started && task->start(task->context) != NULL) {
            task->started = false;
            unrestored->start[unrestored->starts++] = place;
        }
    }
}

static void name_left(const struct tailbound_agent *agent, const char *what, const uint16_t *places,
                      uint16_t count, struct text *reason) {
    for (uint16_t index = 0; index < count; index++) {
        append(reason, index == 0 ? what : ", ");
        append(reason, task_at(agent, places[index])->name);
    }
}

/*
 * Switches tasks. `outcome` is what takes it back: after a failure, what is still to be done before all is
 * as it was.
 */
static bool switch_tasks(const struct tailbound_agent *agent, const struct tailbound_lists *lists,
                         struct tailbound_lists *outcome, struct text *reason) {
    uint16_t stops, starts;
    memset(outcome, 0, sizeof *outcome);
    if (!carry_out(agent, lists, &stops, &starts, reason)) {
        put_back(agent, lists, stops, starts, outcome);
        name_left(agent, "; still started: ", outcome->stop, outcome->stops, reason);
        name_left(agent, "; still stopped: ", outcome->start, outcome->starts, reason);
        return false;
    }
    for (uint16_t index = 0; index < lists->stops; index++) {
        struct tailbound_task *task = task_at(agent, lists->stop[index]);
        if (task->started) {
            task->started = false;
            outcome->start[outcome->starts++] = lists->stop[index];
        }
    }
    for (uint16_t index = 0; index < lists->starts; index++) {
        struct tailbound_task *task = task_at(agent, lists->start[index]);
        if (!task->started) {
            task->started = true;
            outcome->stop[outcome->stops++] = lists->start[index];
        }
    }
    return true;
}

static void add_to_checksum(uint64_t *checksum, const char *text) {
    /* FNV-1a, with the end of the text. */
    do {
        *checksum = (*checksum ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    } while (*text++ != '\0');
}

/* The places of the tasks of a list, each once; false at one that is not known. */
static bool find_tasks(const struct tailbound_agent *agent, struct span names, uint16_t *places,
                       uint16_t *count, struct text *reason) {
    char name[TAILBOUND_NAME_BYTES + 1];
    while (next_name(&names, name)) {
        uint16_t place = 0;
        while (place < agent->config->task_count && strcmp(task_at(agent, place)->name, name) != 0) {
            place++;
        }
        if (place == agent->config->task_count) {
            append(reason, "task \"");
            append(reason, name);
            append(reason, "\" is not among those of this agent; name it to the agent");
            return false;
        }
        if (!contains(places, *count, place)) {
            places[(*count)++] = place;
        }
    }
    return true;
}

static bool find_lists(const struct tailbound_agent *agent, const struct host_message *message,
                       struct tailbound_lists *lists, struct text *reason) {
    memset(lists, 0, sizeof *lists);
    if (!find_tasks(agent, message->stop, lists->stop, &lists->stops, reason) ||
        !find_tasks(agent, message->start, lists->start, &lists->starts, reason)) {
        return false;
    }
    for (uint16_t index = 0; index < lists->stops; index++) {
        if (contains(lists->start, lists->starts, lists->stop[index])) {
            append(reason, "task \"");
            append(reason, task_at(agent, lists->stop[index])->name);
            append(reason, "\" is to be stopped and started by one change; put it into one list");
            return false;
        }
    }
    return true;
}

/* A number for mode and lists, by which a repeated change is told from another one. */
static uint64_t checksum_of(const struct host_message *message) {
    char name[TAILBOUND_NAME_BYTES + 1];
    struct span stop = message->stop, start = message->start;
    uint64_t checksum = UINT64_C(0xcbf29ce484222325);
    add_to_checksum(&checksum, message->mode);
    while (next_name(&stop, name)) {
        add_to_checksum(&checksum, name);
    }
    add_to_checksum(&checksum, "");
    while (next_name(&start, name)) {
        add_to_checksum(&checksum, name);
    }
    return checksum;
}

static void change(struct tailbound_agent *agent, const struct host_message *message,
                   uint64_t received_ns) {
    struct tailbound_decided *decided = &agent->decided;
    uint64_t content = checksum_of(message);
    if (agent->has_decided && decided->change == message->number) {
        if (!decided->has_content || decided->content == content) {
            say_decided(agent);
        } else {
            say_failed(agent, message->number,
                       "this change was told before with another content; give every change a number "
                       "of its own",
                       false);
        }
        return;
    }
    struct tailbound_lists lists;
    struct text reason = {decided->reason, 0};
    agent->has_decided = true;
    decided->change = message->number;
    decided->content = content;
    decided->has_content = true;
    decided->received_ns = received_ns;
    decided->reason[0] = '\0';
    memcpy(decided->before, agent->mode, sizeof agent->mode);
    memset(&decided->back, 0, sizeof decided->back);
    bool done = find_lists(agent, message, &lists, &reason) &&
                switch_tasks(agent, &lists, &decided->back, &reason);
    decided->outcome = done ? TAILBOUND_HELD : TAILBOUND_HAS_FAILED;
    decided->switched_ns = agent->config->now_ns();
    if (done) {
        memcpy(agent->mode, message->mode, sizeof agent->mode);
    }
    say_decided(agent);
    tell(agent, done ? TAILBOUND_DONE : TAILBOUND_FAILED, done ? agent->mode : decided->reason);
}

static void withdraw(struct tailbound_agent *agent, uint64_t number, uint64_t received_ns) {
    struct tailbound_decided *decided = &agent->decided;
    if (!agent->has_decided || decided->change != number) {
        /* It never came, and must not be carried out should it still come. */
        memset(decided, 0, sizeof *decided);
        agent->has_decided = true;
        decided->change = number;
        decided->outcome = TAILBOUND_WAS_WITHDRAWN;
        decided->received_ns = decided->switched_ns = received_ns;
        memcpy(decided->before, agent->mode, sizeof agent->mode);
        say_decided(agent);
        return;
    }
    if (decided->outcome == TAILBOUND_WAS_WITHDRAWN) {
        say_decided(agent);
        return;
    }
    uint64_t switched_ns = received_ns;
    if (decided->outcome != TAILBOUND_HAS_FAILED || !is_empty(&decided->back)) {
        struct tailbound_lists outcome;
        char told[TAILBOUND_TEXT_BYTES + 1] = "";
        struct text reason = {told, 0};
        if (!switch_tasks(agent, &decided->back, &outcome, &reason)) {
            /* Another withdrawal tries again. */
            say_failed(agent, number, told, false);
            tell(agent, TAILBOUND_FAILED, told);
            return;
        }
        switched_ns = agent->config->now_ns();
        memcpy(agent->mode, decided->before, sizeof agent->mode);
    }
    decided->received_ns = received_ns;
    decided->switched_ns = switched_ns;
    decided->outcome = TAILBOUND_WAS_WITHDRAWN;
    say_decided(agent);
    tell(agent, TAILBOUND_WITHDRAWN, agent->mode);
}

static enum tailbound_status welcome(struct tailbound_agent *agent, const struct host_message *message) {
    if (strcmp(message->domain, agent->config->domain) != 0) {
        return TAILBOUND_OTHER_DOMAIN;
    }
    if (agent->welcomed) {
        return TAILBOUND_OK;
    }
    agent->welcomed = true;
    agent->newest = message->number;
    if (!agent->has_decided) {
        memcpy(agent->mode, message->mode, sizeof agent->mode);
    }
    tell(agent, TAILBOUND_CONNECTED, agent->mode);
    return TAILBOUND_OK;
}

static bool is_news(struct tailbound_agent *agent, uint64_t number) {
    if (!agent->welcomed || number < agent->newest) {
        return false;
    }
    agent->newest = number;
    return true;
}

static enum tailbound_status take_message(struct tailbound_agent *agent, struct span payload,
                                          uint64_t received_ns) {
    struct host_message message;
    if (!read_message(payload, &message)) {
        return TAILBOUND_MALFORMED;
    }
    switch (message.order) {
    case ORDER_WELCOME:
        return welcome(agent, &message);
    case ORDER_CHANGE:
        if (is_news(agent, message.number)) {
            change(agent, &message, received_ns);
        }
        break;
    case ORDER_WITHDRAW:
        if (is_news(agent, message.number)) {
            withdraw(agent, message.number, received_ns);
        }
        break;
    case ORDER_PING:
        say_pong(agent, message.number);
        break;
    case ORDER_REFUSED:
        tell(agent, TAILBOUND_REFUSED, message.mode);
        break;
    }
    return TAILBOUND_OK;
}

/* The length of the payload of the frame that begins the received bytes, as far as it can be told. */
static enum tailbound_status look_at_header(const struct tailbound_agent *agent, size_t *payload_bytes,
                                            bool *whole) {
    const uint8_t *in = agent->config->in;
    *whole = false;
    if ((agent->in_used > 0 && in[0] != 'T') || (agent->in_used > 1 && in[1] != 'M')) {
        return TAILBOUND_NOT_OURS;
    }
    if (agent->in_used < HEADER_BYTES) {
        return TAILBOUND_OK;
    }
    if (((uint32_t)in[2] << 8 | in[3]) != TAILBOUND_PROTOCOL_VERSION) {
        return TAILBOUND_VERSION;
    }
    uint32_t length = (uint32_t)in[4] << 24 | (uint32_t)in[5] << 16 | (uint32_t)in[6] << 8 | in[7];
    if (length > PAYLOAD_BYTES_MAX || length > agent->config->in_bytes - HEADER_BYTES) {
        return TAILBOUND_TOO_LONG;
    }
    *payload_bytes = length;
    *whole = agent->in_used - HEADER_BYTES >= length;
    return TAILBOUND_OK;
}

enum tailbound_status tailbound_agent_received(struct tailbound_agent *agent, size_t bytes,
                                               uint64_t received_ns) {
    uint8_t *in = agent->config->in;
    agent->in_used += bytes;
    while (agent->config->out_bytes - agent->out_used >= ANSWER_BYTES) {
        size_t payload_bytes;
        bool whole;
        enum tailbound_status status = look_at_header(agent, &payload_bytes, &whole);
        if (status != TAILBOUND_OK || !whole) {
            return status;
        }
        struct span payload = {in + HEADER_BYTES, in + HEADER_BYTES + payload_bytes};
        status = take_message(agent, payload, received_ns);
        if (status != TAILBOUND_OK) {
            return status;
        }
        size_t taken = HEADER_BYTES + payload_bytes;
        agent->in_used -= taken;
        memmove(in, in + taken, agent->in_used);
    }
    return TAILBOUND_OK;
}

uint8_t *tailbound_agent_room(struct tailbound_agent *agent, size_t *bytes) {
    *bytes = agent->config->in_bytes - agent->in_used;
    return agent->config->in + agent->in_used;
}

const uint8_t *tailbound_agent_to_send(const struct tailbound_agent *agent, size_t *bytes) {
    *bytes = agent->out_used;
    return agent->config->out;
}

void tailbound_agent_sent(struct tailbound_agent *agent, size_t bytes) {
    agent->out_used -= bytes;
    memmove(agent->config->out, agent->config->out + bytes, agent->out_used);
}

void tailbound_agent_connected(struct tailbound_agent *agent) {
    agent->in_used = agent->out_used = 0;
    agent->welcomed = false;
    say_hello(agent);
}

bool tailbound_agent_is_welcomed(const struct tailbound_agent *agent) {
    return agent->welcomed;
}

const char *tailbound_agent_mode(const struct tailbound_agent *agent) {
    return agent->mode;
}

enum tailbound_status tailbound_agent_request(struct tailbound_agent *agent, const char *mode) {
    if (!tailbound_is_name(mode)) {
        return TAILBOUND_BAD_NAME;
    }
    if (!agent->welcomed || agent->config->out_bytes - agent->out_used < ANSWER_BYTES) {
        return TAILBOUND_NOT_NOW;
    }
    struct writer writer = begin_frame(agent);
    write_text(&writer, "{\"report\":\"request\",\"mode\":");
    write_string(&writer, mode);
    write_text(&writer, "}");
    return end_frame(agent, &writer) ? TAILBOUND_OK : TAILBOUND_NOT_NOW;
}

enum tailbound_status tailbound_agent_init(struct tailbound_agent *agent,
                                           const struct tailbound_agent_config *config) {
    memset(agent, 0, sizeof *agent);
    agent->config = config;
    if (!tailbound_is_name(config->domain)) {
        return TAILBOUND_BAD_NAME;
    }
    if (config->task_count > TAILBOUND_TASKS_MAX || config->task_count > LIST_MAX ||
        config->in_bytes < TAILBOUND_IN_BYTES(config->task_count) ||
        config->out_bytes < TAILBOUND_OUT_BYTES(config->task_count)) {
        return TAILBOUND_TOO_SMALL;
    }
    for (size_t place = 0; place < config->task_count; place++) {
        if (!tailbound_is_name(config->tasks[place].name)) {
            return TAILBOUND_BAD_NAME;
        }
    }
    return TAILBOUND_OK;
}

const char *tailbound_status_text(enum tailbound_status status) {
    static const char *const texts[] = {
        "all is well",
        "what the host says is no frame of the mode protocol",
        "the host speaks another version of the mode protocol; use a host and an agent library of one "
        "release",
        "a message of the host is longer than the buffer; give the agent a larger one",
        "a frame of the host holds no valid message",
        "the host takes this agent for that of another domain; give the agent the same domain",
        "a name is none: use small letters, digits, -, _ and ., begun by a letter or digit",
        "a buffer is too small, or there are too many tasks: see TAILBOUND_TASKS_MAX",
        "there is no connection now",
    };
    return (size_t)status < sizeof texts / sizeof *texts ? texts[status] : "unknown";
}

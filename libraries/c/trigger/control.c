/* The switches of triggers, and the socket by which other processes use them. See ../tailbound_trigger.h. */
#define _GNU_SOURCE
#include "../tailbound_trigger.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "recording.h"

#define NAMES 1024
#define TABLES 256
#define CONNECTIONS 8
#define LONGEST_LINE 256
/* linux/membarrier.h */
#define SYNC_CORE (1 << 5)
#define REGISTER_SYNC_CORE (1 << 6)

/* A copy of a trigger in the text; offsets are from the field itself. */
struct entry {
    int32_t jump, site;
    uint32_t skip;
};

struct table {
    const struct entry *first, *end;
};

struct tables {
    struct table table[TABLES];
    size_t count;
};

/* The names of triggers by number, from 1. */
static const char *names[NAMES];
static uint32_t name_count;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

static struct tailbound_trigger_site *site_of(const struct entry *entry) {
    return (struct tailbound_trigger_site *)((uintptr_t)&entry->site + (uintptr_t)(intptr_t)entry->site);
}

static bool fits(const char *pattern, const char *name) {
    /* Where the last star was, and the end of what it stands for. */
    const char *star = NULL, *taken = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            taken = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++taken;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

static void add_table(struct tables *tables, const int32_t *content) {
    const struct entry *first = (const struct entry *)((uintptr_t)&content[0] + (uintptr_t)(intptr_t)content[0]);
    const struct entry *end = (const struct entry *)((uintptr_t)&content[1] + (uintptr_t)(intptr_t)content[1]);
    for (size_t at = 0; at < tables->count; at++) {
        if (tables->table[at].first == first) {
            return;
        }
    }
    if (tables->count < TABLES) {
        tables->table[tables->count++] = (struct table){first, end};
    }
}

/* Adds the tables that the notes of a program or library name. */
static int add_object(struct dl_phdr_info *object, size_t size, void *tables) {
    (void)size;
    for (size_t at = 0; at < object->dlpi_phnum; at++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[at];
        if (header->p_type != PT_NOTE) {
            continue;
        }
        const char *note = (const char *)(object->dlpi_addr + header->p_vaddr);
        size_t left = header->p_memsz;
        while (left >= sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *head = (const ElfW(Nhdr) *)note;
            size_t owner = ((size_t)head->n_namesz + 3) & ~(size_t)3, content = ((size_t)head->n_descsz + 3) & ~(size_t)3;
            if (owner + content > left - sizeof *head) {
                break;
            }
            const char *name = note + sizeof *head;
            if (head->n_namesz == 10 && memcmp(name, "Tailbound", 10) == 0 && head->n_type == 1 && head->n_descsz == 8) {
                add_table((struct tables *)tables, (const int32_t *)(const void *)(name + owner));
            }
            note = name + owner + content;
            left -= sizeof *head + owner + content;
        }
    }
    return 0;
}

/* Writes a byte of text: with the page writable for the time of the store, or past its protection. */
static int write_text(unsigned char *place, unsigned char value) {
    uintptr_t bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)place & ~(bytes - 1));
    if (mprotect(page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0) {
        __atomic_store_n(place, value, __ATOMIC_SEQ_CST);
        mprotect(page, bytes, PROT_READ | PROT_EXEC);
        return 0;
    }
    int refusal = errno;
    int memory = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
    ssize_t written = memory < 0 ? -1 : pwrite(memory, &value, 1, (off_t)(uintptr_t)place);
    if (memory >= 0) {
        close(memory);
    }
    errno = refusal;
    return written == 1 ? 0 : -1;
}

/* Refuses where the environment of the program forbids patches (EPERM), or says neither on nor off (EINVAL). */
static int check_permission(void) {
    const char *value = getenv("TAILBOUND_TRIGGER_PATCH");
    if (!value || strcmp(value, "on") == 0) {
        return 0;
    }
    errno = strcmp(value, "off") == 0 ? EPERM : EINVAL;
    return -1;
}

/* Lets a jump go to the next instruction, or over it. */
static int patch(const struct entry *entry, bool is_enabled) {
    if (entry->jump == 0) {
        return 0;
    }
    unsigned char *jump = (unsigned char *)((uintptr_t)&entry->jump + (uintptr_t)(intptr_t)entry->jump);
    if (jump[0] != 0xeb || (jump[1] != 0 && jump[1] != entry->skip)) {
        errno = EILSEQ;
        return -1;
    }
    unsigned char value = is_enabled ? 0 : (unsigned char)entry->skip;
    if (jump[1] == value) {
        return 0;
    }
    return check_permission() == 0 ? write_text(&jump[1], value) : -1;
}

static void synchronize_threads(void) {
    static int registered = -1;
    if (registered < 0) {
        registered = syscall(SYS_membarrier, REGISTER_SYNC_CORE, 0, 0) == 0;
    }
    if (registered) {
        syscall(SYS_membarrier, SYNC_CORE, 0, 0);
    }
}

static void record(const struct tailbound_trigger_site *site, const uint64_t *arguments, uint32_t count) {
    tailbound_recording_write(site->number, arguments, count);
}

static uint32_t number_of(const char *name) {
    for (uint32_t at = 0; at < name_count; at++) {
        if (strcmp(names[at], name) == 0) {
            return at + 1;
        }
    }
    if (name_count == NAMES) {
        return NAMES + 1;
    }
    names[name_count++] = name;
    tailbound_recording_enter_name(name_count, name);
    return name_count;
}

/* Calls `visit` for every copy of a trigger that fits, until it returns other than 0; counts the calls. */
static int visit_copies(const struct tables *tables, const char *pattern, int *count,
                        int (*visit)(const struct entry *, void *), void *context) {
    *count = 0;
    for (size_t at = 0; at < tables->count; at++) {
        for (const struct entry *entry = tables->table[at].first; entry < tables->table[at].end; entry++) {
            if (entry->site == 0 || !fits(pattern, site_of(entry)->name)) {
                continue;
            }
            int result = visit(entry, context);
            if (result != 0) {
                return result;
            }
            ++*count;
        }
    }
    return 0;
}

struct switching {
    tailbound_trigger_callback *callback;
    bool is_enabled;
    /* Copies to take back; the rest of them is as it was. */
    int done;
};

static int prepare(const struct entry *entry, void *context) {
    struct tailbound_trigger_site *site = site_of(entry);
    __atomic_store_n(&site->number, number_of(site->name), __ATOMIC_RELAXED);
    __atomic_store_n(&site->callback, ((struct switching *)context)->callback, __ATOMIC_RELEASE);
    return 0;
}

static int set(const struct entry *entry, void *context) {
    return patch(entry, ((struct switching *)context)->is_enabled);
}

static int take_back(const struct entry *entry, void *context) {
    struct switching *switching = (struct switching *)context;
    return switching->done-- > 0 ? patch(entry, site_of(entry)->enabled) : 1;
}

static int conclude(const struct entry *entry, void *context) {
    __atomic_store_n(&site_of(entry)->enabled, ((struct switching *)context)->is_enabled, __ATOMIC_RELAXED);
    return 0;
}

static int switch_triggers(const char *pattern, struct switching switching) {
    struct tables tables = {.count = 0};
    dl_iterate_phdr(add_object, &tables);
    pthread_mutex_lock(&order);
    int count;
    if (switching.is_enabled) {
        visit_copies(&tables, pattern, &count, prepare, &switching);
    }
    if (visit_copies(&tables, pattern, &count, set, &switching) != 0) {
        int refusal = errno;
        switching.done = count;
        visit_copies(&tables, pattern, &count, take_back, &switching);
        errno = refusal;
        count = -1;
    } else if (count == 0) {
        errno = ENOENT;
        count = -1;
    } else {
        visit_copies(&tables, pattern, &count, conclude, &switching);
        synchronize_threads();
    }
    pthread_mutex_unlock(&order);
    return count;
}

int tailbound_trigger_enable(const char *pattern) {
    return switch_triggers(pattern, (struct switching){.callback = record, .is_enabled = true});
}

int tailbound_trigger_disable(const char *pattern) {
    return switch_triggers(pattern, (struct switching){.is_enabled = false});
}

int tailbound_trigger_call(const char *pattern, tailbound_trigger_callback *callback) {
    return switch_triggers(pattern, (struct switching){.callback = callback, .is_enabled = true});
}

int tailbound_trigger_record_into(int file) {
    pthread_mutex_lock(&order);
    int result = tailbound_recording_begin(file);
    for (uint32_t at = 0; result == 0 && at < name_count; at++) {
        tailbound_recording_enter_name(at + 1, names[at]);
    }
    pthread_mutex_unlock(&order);
    return result;
}

void tailbound_trigger_stop(void) {
    tailbound_recording_end();
}

/* The connections that are served. */
static int connections;

struct session {
    int stream, file;
    bool is_recording;
};

/* Sends a line of an answer; a peer that has gone raises no signal. */
static __attribute__((format(printf, 2, 3))) int say(int stream, const char *format, ...) {
    char line[LONGEST_LINE * 2];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t bytes = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    return send(stream, line, bytes, MSG_NOSIGNAL) == (ssize_t)bytes ? 0 : -1;
}

static int say_state(const struct entry *entry, void *stream) {
    const struct tailbound_trigger_site *site = site_of(entry);
    return say(*(int *)stream, "%s %s 1\n", site->name, site->enabled ? "on" : "off");
}

static int list(int stream) {
    struct tables tables = {.count = 0};
    dl_iterate_phdr(add_object, &tables);
    int count;
    visit_copies(&tables, "*", &count, say_state, &stream);
    return count;
}

static int begin_recording(struct session *session) {
    int seals = session->file < 0 ? -1 : fcntl(session->file, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK)) {
        /* A file that is shortened under its writers would kill the program. */
        errno = EINVAL;
        return -1;
    }
    int result = tailbound_trigger_record_into(session->file);
    session->is_recording |= result == 0;
    return result;
}

static void end_recording(struct session *session) {
    if (session->is_recording) {
        tailbound_trigger_stop();
    }
    session->is_recording = false;
}

/* Says why triggers were not switched: none fits, or the text of the program cannot be changed. */
static void say_refusal(int stream, const char *pattern, int refusal) {
    const char *variable = getenv("TAILBOUND_TRIGGER_PATCH");
    if (refusal == ENOENT) {
        say(stream, "error no trigger of the program fits \"%s\"\n", pattern);
        return;
    }
    bool is_forbidden = variable && strcmp(variable, "on") != 0;
    say(stream,
        "error \"%.64s\" cannot be switched, since the text of the program cannot be changed (%s%.32s%s); build the "
        "program with TAILBOUND_TRIGGER_ATOMIC\n",
        pattern, is_forbidden ? "TAILBOUND_TRIGGER_PATCH=" : "", is_forbidden ? variable : "",
        !is_forbidden         ? strerror(refusal)
        : refusal == EPERM    ? " forbids it"
                              : " is neither on nor off");
}

static void answer(struct session *session, char *line) {
    char *argument = strchr(line, ' ');
    int result = 0;
    bool is_switch = false;
    if (argument) {
        *argument++ = '\0';
    } else {
        argument = line + strlen(line);
    }
    if (strcmp(line, "list") == 0) {
        result = list(session->stream);
    } else if (strcmp(line, "enable") == 0) {
        is_switch = true;
        result = tailbound_trigger_enable(argument);
    } else if (strcmp(line, "disable") == 0) {
        is_switch = true;
        result = tailbound_trigger_disable(argument);
    } else if (strcmp(line, "record") == 0) {
        result = begin_recording(session);
    } else if (strcmp(line, "stop") == 0) {
        end_recording(session);
    } else {
        say(session->stream,
                "error \"%s\" is no request; there are list, enable, disable, record and stop\n", line);
        return;
    }
    if (result >= 0) {
        say(session->stream, "ok %d\n", result);
    } else if (is_switch) {
        say_refusal(session->stream, argument, errno);
    } else {
        say(session->stream, "error %s: %s\n", line, strerror(errno));
    }
}

/* Receives bytes, and the last descriptor that comes with them, in place of the one before. */
static ssize_t receive(struct session *session, char *bytes, size_t room) {
    struct iovec vector = {.iov_base = bytes, .iov_len = room};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t count = recvmsg(session->stream, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *part = count < 0 ? NULL : CMSG_FIRSTHDR(&message);
    for (; part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t descriptors = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t at = 0; at < descriptors; at++) {
            if (session->file >= 0) {
                close(session->file);
            }
            memcpy(&session->file, CMSG_DATA(part) + at * sizeof(int), sizeof(int));
        }
    }
    return count;
}

static void *serve(void *stream) {
    struct session session = {.stream = (int)(intptr_t)stream, .file = -1};
    char text[LONGEST_LINE];
    size_t length = 0;
    ssize_t count;
    while (length < sizeof text && (count = receive(&session, text + length, sizeof text - length)) > 0) {
        length += (size_t)count;
        char *end;
        while ((end = (char *)memchr(text, '\n', length))) {
            *end = '\0';
            size_t used = (size_t)(end - text) + 1;
            answer(&session, text);
            memmove(text, text + used, length - used);
            length -= used;
        }
    }
    end_recording(&session);
    if (session.file >= 0) {
        close(session.file);
    }
    close(session.stream);
    __atomic_fetch_sub(&connections, 1, __ATOMIC_RELAXED);
    return NULL;
}

static bool is_allowed(int stream) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(stream, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

/* Starts a thread that handles no signals: those are the program's. Returns 0 or an errno. */
static int start(void *(*run)(void *), int descriptor) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int refusal = pthread_create(&thread, NULL, run, (void *)(intptr_t)descriptor);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (refusal == 0) {
        pthread_detach(thread);
    }
    return refusal;
}

static void *accept_connections(void *listener) {
    for (;;) {
        int stream = accept4((int)(intptr_t)listener, NULL, NULL, SOCK_CLOEXEC);
        if (stream < 0) {
            continue;
        }
        int others = __atomic_fetch_add(&connections, 1, __ATOMIC_RELAXED);
        if (others < CONNECTIONS && is_allowed(stream) && start(serve, stream) == 0) {
            continue;
        }
        __atomic_fetch_sub(&connections, 1, __ATOMIC_RELAXED);
        close(stream);
    }
    return NULL;
}

int tailbound_trigger_listen(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "tailbound-triggers-%ld", (long)getpid());
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (listener < 0) {
        return -1;
    }
    if (bind(listener, (struct sockaddr *)&address, bytes) != 0 || listen(listener, CONNECTIONS) != 0) {
        close(listener);
        return -1;
    }
    int refusal = start(accept_connections, listener);
    if (refusal != 0) {
        close(listener);
        errno = refusal;
        return -1;
    }
    return 0;
}

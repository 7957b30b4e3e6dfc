/* The writer of recordings; crates/trigger/src/ring_buffer.rs has the algorithm, and layout.rs the form. */
#define _GNU_SOURCE
#include "recording.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define VERSION 1
#define HEADER_BYTES 4096
#define NAME_BYTES 56
#define BUSY 1
/* In the number of arguments: the ring lost events before this one. */
#define FOLLOWS_LOSS 0x80
#define READY 2

struct header {
    char magic[8];
    uint32_t version, arguments, slots, rings, names, clock;
};

struct ring {
    int32_t free;
    uint32_t written, lost, owner, noted_loss, writers_line[11];
    uint32_t read, reader_line[15];
    uint64_t words[];
};

struct recording {
    char *base;
    size_t bytes, ring_bytes, rings_offset, slot_words;
    struct header header;
};

/* The recording under way, or null; the one before, whose memory goes back to the system when the next one begins. */
static struct recording *current;
static struct recording *ended;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t ending;

/* The part of a recording that the thread has. Initial-exec, so that no access allocates. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    struct recording *recording;
    struct ring *ring;
    uint32_t thread;
    /* Whether the thread is in the middle of a write, into which a signal handler must not write. */
    bool is_writing;
} own;

static struct ring *ring_at(const struct recording *recording, uint32_t number) {
    return (struct ring *)(recording->base + recording->rings_offset + number * recording->ring_bytes);
}

static void leave(void *unused) {
    (void)unused;
    if (own.ring) {
        __atomic_store_n(&own.ring->owner, 0, __ATOMIC_RELEASE);
    }
    own.ring = NULL;
    own.recording = NULL;
}

/* The thread that ends the process ends without the destructors of threads. */
static __attribute__((destructor)) void leave_at_exit(void) {
    leave(NULL);
}

/* In a child of fork: the ring is still the parent's. */
static void forget(void) {
    own.is_writing = false;
    own.ring = NULL;
    own.recording = NULL;
}

static __attribute__((noinline, cold)) void join(struct recording *recording) {
    leave(NULL);
    own.thread = (uint32_t)syscall(SYS_gettid);
    own.recording = recording;
    uint32_t rings = recording->header.rings - 1;
    for (uint32_t offset = 0; offset < rings; offset++) {
        struct ring *ring = ring_at(recording, 1 + (own.thread + offset) % rings);
        uint32_t nobody = 0;
        if (__atomic_load_n(&ring->owner, __ATOMIC_RELAXED) == 0
            && __atomic_compare_exchange_n(&ring->owner, &nobody, own.thread, false, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED)) {
            own.ring = ring;
            break;
        }
    }
    pthread_setspecific(ending, recording);
}

static uint64_t now(uint32_t clock) {
#ifdef __x86_64__
    if (clock == 1) {
        return __builtin_ia32_rdtsc();
    }
#endif
    (void)clock;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

uint64_t tailbound_recording_now(void) {
    struct recording *recording = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    return recording ? now(recording->header.clock) : 0;
}

/* Whether the ring has lost events since the last time that this was asked. */
static bool notes_loss(struct ring *ring) {
    uint32_t lost = __atomic_load_n(&ring->lost, __ATOMIC_RELAXED);
    if (__atomic_load_n(&ring->noted_loss, __ATOMIC_RELAXED) == lost) {
        return false;
    }
    __atomic_store_n(&ring->noted_loss, lost, __ATOMIC_RELAXED);
    return true;
}

/* Draws a slot; false if the ring is full, which is counted. */
static bool reserve(struct ring *ring, bool is_shared, uint32_t slots, uint32_t *index) {
    if (!is_shared) {
        uint32_t written = __atomic_load_n(&ring->written, __ATOMIC_RELAXED);
        if (written - __atomic_load_n(&ring->read, __ATOMIC_ACQUIRE) >= slots) {
            __atomic_store_n(&ring->lost, ring->lost + 1, __ATOMIC_RELAXED);
            return false;
        }
        __atomic_store_n(&ring->written, written + 1, __ATOMIC_RELAXED);
        *index = written;
        return true;
    }
    if (__atomic_fetch_sub(&ring->free, 1, __ATOMIC_ACQUIRE) <= 0) {
        __atomic_fetch_add(&ring->free, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELAXED);
        return false;
    }
    *index = __atomic_fetch_add(&ring->written, 1, __ATOMIC_ACQ_REL);
    return true;
}

/* An event on its way into a ring. */
struct event {
    uint64_t instant;
    uint32_t number, thread, count;
    const uint64_t *arguments;
};

static void put(const struct recording *recording, struct ring *ring, bool is_shared, const struct event *event) {
    uint32_t slots = recording->header.slots, index;
    if (!reserve(ring, is_shared, slots, &index)) {
        return;
    }
    uint64_t *slot = ring->words + (index & (slots - 1)) * recording->slot_words;
    uint32_t kept = event->count < recording->header.arguments ? event->count : recording->header.arguments;
    __atomic_store_n(&slot[0], BUSY, __ATOMIC_RELAXED);
    __atomic_store_n(&slot[1], event->instant, __ATOMIC_RELAXED);
    for (uint32_t at = 0; at < kept; at++) {
        __atomic_store_n(&slot[2 + at], event->arguments[at], __ATOMIC_RELAXED);
    }
    uint64_t shape = event->count | (notes_loss(ring) ? FOLLOWS_LOSS : 0);
    uint64_t label = READY | shape << 8 | (uint64_t)event->number << 16 | (uint64_t)event->thread << 32;
    __atomic_store_n(&slot[0], label, __ATOMIC_RELEASE);
}

void tailbound_recording_write(uint32_t number, const uint64_t *arguments, uint32_t count) {
    struct recording *recording = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    if (!recording) {
        return;
    }
    struct event event = {now(recording->header.clock), number, 0, count, arguments};
    if (own.is_writing) {
        /* A signal handler on top of a write: the ring of the thread has one writer at a time. */
        event.thread = (uint32_t)syscall(SYS_gettid);
        put(recording, ring_at(recording, 0), true, &event);
        return;
    }
    own.is_writing = true;
    /* The signal's handler is of this thread, so that the order of the compiler is enough. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (own.recording != recording) {
        join(recording);
    }
    event.thread = own.thread;
    put(recording, own.ring ? own.ring : ring_at(recording, 0), !own.ring, &event);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    own.is_writing = false;
}

/* Checks a header against the length of the file and computes the sizes. */
static bool measure(struct recording *recording) {
    const struct header *header = &recording->header;
    if (memcmp(header->magic, "TBevents", 8) != 0 || header->version != VERSION || header->arguments < 1
        || header->arguments > 8 || header->slots == 0 || (header->slots & (header->slots - 1)) != 0
        || header->slots > 1u << 24 || header->rings < 1 || header->rings > 1u << 12 || header->names > 0xffff
        || header->clock > 1) {
        return false;
    }
    recording->slot_words = 2 + header->arguments;
    recording->ring_bytes = (sizeof(struct ring) + header->slots * recording->slot_words * 8 + 63) & ~(size_t)63;
    recording->rings_offset = HEADER_BYTES + header->names * (size_t)(8 + NAME_BYTES);
    return recording->bytes >= recording->rings_offset + header->rings * recording->ring_bytes;
}

static struct recording *map(int file) {
    struct stat status;
    if (fstat(file, &status) != 0) {
        return NULL;
    }
    if (status.st_size < HEADER_BYTES) {
        errno = EINVAL;
        return NULL;
    }
    /* The record itself is mapped, too: an allocator may be what is being recorded. */
    struct recording *recording = (struct recording *)mmap(NULL, sizeof *recording, PROT_READ | PROT_WRITE,
                                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (recording == MAP_FAILED) {
        return NULL;
    }
    recording->bytes = (size_t)status.st_size;
    void *base = mmap(NULL, recording->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (base != MAP_FAILED) {
        recording->base = (char *)base;
        memcpy(&recording->header, base, sizeof recording->header);
        if (measure(recording)) {
            return recording;
        }
        munmap(base, recording->bytes);
        errno = EINVAL;
    }
    munmap(recording, sizeof *recording);
    return NULL;
}

static void prepare_process(void) {
    pthread_key_create(&ending, leave);
    pthread_atfork(NULL, NULL, forget);
}

int tailbound_recording_begin(int file) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_process);
    pthread_mutex_lock(&order);
    int result = -1;
    if (__atomic_load_n(&current, __ATOMIC_ACQUIRE)) {
        errno = EBUSY;
    } else {
        struct recording *recording = map(file);
        if (recording) {
            if (ended) {
                madvise(ended->base, ended->bytes, MADV_REMOVE);
                ended = NULL;
            }
            __atomic_store_n(&current, recording, __ATOMIC_RELEASE);
            result = 0;
        }
    }
    pthread_mutex_unlock(&order);
    return result;
}

void tailbound_recording_end(void) {
    pthread_mutex_lock(&order);
    struct recording *recording = __atomic_exchange_n(&current, NULL, __ATOMIC_ACQ_REL);
    ended = recording ? recording : ended;
    pthread_mutex_unlock(&order);
}

void tailbound_recording_enter_name(uint32_t number, const char *name) {
    struct recording *recording = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    if (!recording || number == 0 || number > recording->header.names) {
        return;
    }
    char *entry = recording->base + HEADER_BYTES + (number - 1) * (size_t)(8 + NAME_BYTES);
    size_t length = strnlen(name, NAME_BYTES);
    memcpy(entry + 8, name, length);
    __atomic_store_n((uint64_t *)entry, (uint64_t)length + 1, __ATOMIC_RELEASE);
}

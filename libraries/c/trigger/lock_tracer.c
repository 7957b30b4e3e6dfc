/*
 * A library to preload (LD_PRELOAD) that records how a program uses the locks of POSIX threads: mutexes, read-write
 * locks, spin locks, and condition variables, whose waits release a mutex. TAILBOUND_LOCK_TRACE names the recording.
 * Built with recording.c; crates/lock-trace reads the events.
 *
 * A lock is tried first, so that an acquisition that has to wait is known, and its request is stamped. Acquisitions
 * are stamped after the lock is held and releases before it is given up, so that the time between is the critical
 * section without the costs of the lock. Nothing is recorded while a thread is recording: an allocator's locks, which
 * a first event may take, never recurse.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "recording.h"

#define SITE ((uintptr_t)__builtin_return_address(0))
#define EXPORTED __attribute__((visibility("default")))

/* The events, by their numbers in the recording: lock and site, for acquisitions also the request if they waited. */
enum event {
    MUTEX_ACQUIRED = 1,
    MUTEX_RELEASED,
    MUTEX_REACQUIRED,
    READ_ACQUIRED,
    WRITE_ACQUIRED,
    RWLOCK_RELEASED,
    SPIN_ACQUIRED,
    SPIN_RELEASED,
    PROCESS,
    EVENTS
};

static const char *const names[EVENTS] = {
    [MUTEX_ACQUIRED] = "mutex.acquired",   [MUTEX_RELEASED] = "mutex.released",
    [MUTEX_REACQUIRED] = "mutex.reacquired", [READ_ACQUIRED] = "read.acquired",
    [WRITE_ACQUIRED] = "write.acquired",   [RWLOCK_RELEASED] = "rwlock.released",
    [SPIN_ACQUIRED] = "spin.acquired",     [SPIN_RELEASED] = "spin.released",
    [PROCESS] = "process",
};

/* The functions of libc, or of the next library that has them. */
#define FUNCTIONS(X)                                                                                                   \
    X(int, mutex_lock, (pthread_mutex_t *))                                                                            \
    X(int, mutex_trylock, (pthread_mutex_t *))                                                                         \
    X(int, mutex_timedlock, (pthread_mutex_t *, const struct timespec *))                                              \
    X(int, mutex_clocklock, (pthread_mutex_t *, clockid_t, const struct timespec *))                                   \
    X(int, mutex_unlock, (pthread_mutex_t *))                                                                          \
    X(int, rwlock_rdlock, (pthread_rwlock_t *))                                                                        \
    X(int, rwlock_tryrdlock, (pthread_rwlock_t *))                                                                     \
    X(int, rwlock_timedrdlock, (pthread_rwlock_t *, const struct timespec *))                                          \
    X(int, rwlock_clockrdlock, (pthread_rwlock_t *, clockid_t, const struct timespec *))                               \
    X(int, rwlock_wrlock, (pthread_rwlock_t *))                                                                        \
    X(int, rwlock_trywrlock, (pthread_rwlock_t *))                                                                     \
    X(int, rwlock_timedwrlock, (pthread_rwlock_t *, const struct timespec *))                                          \
    X(int, rwlock_clockwrlock, (pthread_rwlock_t *, clockid_t, const struct timespec *))                               \
    X(int, rwlock_unlock, (pthread_rwlock_t *))                                                                        \
    X(int, cond_wait, (pthread_cond_t *, pthread_mutex_t *))                                                           \
    X(int, cond_timedwait, (pthread_cond_t *, pthread_mutex_t *, const struct timespec *))                             \
    X(int, cond_clockwait, (pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))                  \
    X(int, spin_lock, (pthread_spinlock_t *))                                                                          \
    X(int, spin_trylock, (pthread_spinlock_t *))                                                                       \
    X(int, spin_unlock, (pthread_spinlock_t *))
#define MEMBER(type, name, arguments) type(*name) arguments;
static struct {
    FUNCTIONS(MEMBER)
    bool are_complete;
} next;

static __thread __attribute__((tls_model("initial-exec"))) struct {
    /* Whether the thread is in this library, where its locks are none of the program. */
    bool is_busy;
    /* The process that the thread has recorded itself for. */
    pid_t process;
} own;

static void *resolve(const char *name) {
#ifdef __x86_64__
    /* Without a version, dlsym gives the condition variables of 2002. */
    void *function = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (function) {
        return function;
    }
#endif
    return dlsym(RTLD_NEXT, name);
}

static void resolve_all(void) {
    bool was_busy = own.is_busy;
    own.is_busy = true;
    void *function;
#define RESOLVE(type, name, arguments)                                                                                 \
    function = resolve("pthread_" #name);                                                                              \
    __builtin_memcpy(&next.name, &function, sizeof function);
    FUNCTIONS(RESOLVE)
    __atomic_store_n(&next.are_complete, true, __ATOMIC_RELEASE);
    own.is_busy = was_busy;
}

/*
 * Whether a function of libc can be called. A call before the constructor of this library resolves them; one that
 * comes out of that, from an allocator that the dynamic linker calls, is of the only thread that there is, and needs
 * no lock.
 */
static bool is_ready(void) {
    if (__builtin_expect(__atomic_load_n(&next.are_complete, __ATOMIC_ACQUIRE), 1)) {
        return true;
    }
    if (own.is_busy) {
        return false;
    }
    resolve_all();
    return true;
}

static void record(enum event event, const volatile void *lock, uintptr_t site, uint64_t requested) {
    if (own.is_busy) {
        return;
    }
    own.is_busy = true;
    if (own.process == 0) {
        own.process = getpid();
        uint64_t process = (uint64_t)own.process;
        tailbound_recording_write(PROCESS, &process, 1);
    }
    uint64_t arguments[3] = {(uint64_t)(uintptr_t)lock, site, requested};
    tailbound_recording_write(event, arguments, requested ? 3 : 2);
    own.is_busy = false;
}

static void forget_process(void) {
    own.process = 0;
}

/* Copies the mappings of the process beside the recording, by which addresses get the names of files. */
static void copy_mappings(void) {
    const char *prefix = getenv("TAILBOUND_LOCK_TRACE_MAPS");
    char path[4096], bytes[4096];
    if (!prefix || (size_t)snprintf(path, sizeof path, "%s%ld", prefix, (long)getpid()) >= sizeof path) {
        return;
    }
    int from = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t count;
    while (from >= 0 && to >= 0 && (count = read(from, bytes, sizeof bytes)) > 0) {
        if (write(to, bytes, (size_t)count) != count) {
            break;
        }
    }
    if (from >= 0) {
        close(from);
    }
    if (to >= 0) {
        close(to);
    }
}

static __attribute__((constructor)) void begin(void) {
    own.is_busy = true;
    if (!next.are_complete) {
        resolve_all();
    }
    const char *path = getenv("TAILBOUND_LOCK_TRACE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0 && tailbound_recording_begin(file) == 0) {
        for (uint32_t event = 1; event < EVENTS; event++) {
            tailbound_recording_enter_name(event, names[event]);
        }
        pthread_atfork(NULL, NULL, forget_process);
        copy_mappings();
    }
    if (file >= 0) {
        close(file);
    }
    /* What the thread recorded before went nowhere. */
    own.process = 0;
    own.is_busy = false;
}

/* Libraries that were loaded since have mappings now. */
static __attribute__((destructor)) void end(void) {
    own.is_busy = true;
    copy_mappings();
    own.is_busy = false;
}

/* Whether a lock is held after this result. */
static bool is_held(int result) {
    return result == 0 || result == EOWNERDEAD;
}

/*
 * The body of a function that acquires: `try` first; where that finds the lock taken, the request is stamped and `wait`
 * does what the program asked for. Other results of the attempt are those of locks that cannot be tried.
 */
#define ACQUIRE(event, lock, try, wait)                                                                                \
    do {                                                                                                               \
        if (!is_ready()) {                                                                                             \
            return 0;                                                                                                  \
        }                                                                                                              \
        uint64_t requested = 0;                                                                                        \
        int result = (try);                                                                                            \
        if (!is_held(result)) {                                                                                        \
            requested = tailbound_recording_now();                                                                     \
            result = (wait);                                                                                           \
        }                                                                                                              \
        if (is_held(result)) {                                                                                         \
            record(event, lock, SITE, requested);                                                                      \
        }                                                                                                              \
        return result;                                                                                                 \
    } while (0)

#define TRY(event, lock, try)                                                                                          \
    do {                                                                                                               \
        if (!is_ready()) {                                                                                             \
            return 0;                                                                                                  \
        }                                                                                                              \
        int result = (try);                                                                                            \
        if (is_held(result)) {                                                                                         \
            record(event, lock, SITE, 0);                                                                              \
        }                                                                                                              \
        return result;                                                                                                 \
    } while (0)

#define RELEASE(event, lock, release)                                                                                  \
    do {                                                                                                               \
        if (!is_ready()) {                                                                                             \
            return 0;                                                                                                  \
        }                                                                                                              \
        record(event, lock, SITE, 0);                                                                                  \
        return (release);                                                                                              \
    } while (0)

/* A wait gives the mutex up and has it again at its end, whatever the result. */
#define WAIT(lock, wait)                                                                                               \
    do {                                                                                                               \
        if (!is_ready()) {                                                                                             \
            return 0;                                                                                                  \
        }                                                                                                              \
        record(MUTEX_RELEASED, lock, SITE, 0);                                                                         \
        int result = (wait);                                                                                           \
        record(MUTEX_REACQUIRED, lock, SITE, 0);                                                                       \
        return result;                                                                                                 \
    } while (0)

EXPORTED int pthread_mutex_lock(pthread_mutex_t *lock) {
    ACQUIRE(MUTEX_ACQUIRED, lock, next.mutex_trylock(lock), next.mutex_lock(lock));
}

EXPORTED int pthread_mutex_trylock(pthread_mutex_t *lock) {
    TRY(MUTEX_ACQUIRED, lock, next.mutex_trylock(lock));
}

EXPORTED int pthread_mutex_timedlock(pthread_mutex_t *lock, const struct timespec *end) {
    ACQUIRE(MUTEX_ACQUIRED, lock, next.mutex_trylock(lock), next.mutex_timedlock(lock, end));
}

EXPORTED int pthread_mutex_clocklock(pthread_mutex_t *lock, clockid_t clock, const struct timespec *end) {
    ACQUIRE(MUTEX_ACQUIRED, lock, next.mutex_trylock(lock), next.mutex_clocklock(lock, clock, end));
}

EXPORTED int pthread_mutex_unlock(pthread_mutex_t *lock) {
    RELEASE(MUTEX_RELEASED, lock, next.mutex_unlock(lock));
}

EXPORTED int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    ACQUIRE(READ_ACQUIRED, lock, next.rwlock_tryrdlock(lock), next.rwlock_rdlock(lock));
}

EXPORTED int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock) {
    TRY(READ_ACQUIRED, lock, next.rwlock_tryrdlock(lock));
}

EXPORTED int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *end) {
    ACQUIRE(READ_ACQUIRED, lock, next.rwlock_tryrdlock(lock), next.rwlock_timedrdlock(lock, end));
}

EXPORTED int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *end) {
    ACQUIRE(READ_ACQUIRED, lock, next.rwlock_tryrdlock(lock), next.rwlock_clockrdlock(lock, clock, end));
}

EXPORTED int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    ACQUIRE(WRITE_ACQUIRED, lock, next.rwlock_trywrlock(lock), next.rwlock_wrlock(lock));
}

EXPORTED int pthread_rwlock_trywrlock(pthread_rwlock_t *lock) {
    TRY(WRITE_ACQUIRED, lock, next.rwlock_trywrlock(lock));
}

EXPORTED int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *end) {
    ACQUIRE(WRITE_ACQUIRED, lock, next.rwlock_trywrlock(lock), next.rwlock_timedwrlock(lock, end));
}

EXPORTED int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *end) {
    ACQUIRE(WRITE_ACQUIRED, lock, next.rwlock_trywrlock(lock), next.rwlock_clockwrlock(lock, clock, end));
}

EXPORTED int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    RELEASE(RWLOCK_RELEASED, lock, next.rwlock_unlock(lock));
}

EXPORTED int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock) {
    WAIT(lock, next.cond_wait(condition, lock));
}

EXPORTED int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *end) {
    WAIT(lock, next.cond_timedwait(condition, lock, end));
}

EXPORTED int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *lock, clockid_t clock,
                                    const struct timespec *end) {
    WAIT(lock, next.cond_clockwait(condition, lock, clock, end));
}

EXPORTED int pthread_spin_lock(pthread_spinlock_t *lock) {
    ACQUIRE(SPIN_ACQUIRED, lock, next.spin_trylock(lock), next.spin_lock(lock));
}

EXPORTED int pthread_spin_trylock(pthread_spinlock_t *lock) {
    TRY(SPIN_ACQUIRED, lock, next.spin_trylock(lock));
}

EXPORTED int pthread_spin_unlock(pthread_spinlock_t *lock) {
    RELEASE(SPIN_RELEASED, lock, next.spin_unlock(lock));
}

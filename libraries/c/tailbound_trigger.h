/*
 * Triggers for C and C++: named places in a program that record an event, or call a function, where they are
 * switched on, and cost one instruction where they are off.
 *
 *     #include "tailbound_trigger.h"
 *     TAILBOUND_TRIGGER("serve.begin", request, bytes);
 *
 * The name is a literal of at most 56 bytes; up to eight integers follow (pointers cast to uintptr_t), which are
 * evaluated only where the trigger is on. Triggers of one name are switched together. Any number of files and
 * shared libraries may have triggers. The functions below, which switch and record them, are in trigger/control.c and
 * trigger/recording.c: compile both into the program (-pthread), or link the Rust crate `tailbound-trigger`, whose
 * functions switch the triggers of both languages.
 *
 * On x86-64 with gcc 11 or clang 17 and later a trigger is a jump over a jump, the first of which is patched by a
 * store of one byte. With older compilers, on other architectures (aarch64), and with TAILBOUND_TRIGGER_ATOMIC a
 * trigger is a branch on an atomic of its own. Which of the two a trigger is, is decided when the program is compiled:
 * where text cannot be patched, jumps stay off, and the functions below refuse to switch them. So they do where the
 * environment of the program has TAILBOUND_TRIGGER_PATCH=off (EPERM), by which an operator keeps the text as it was built.
 *
 * The crate's documentation describes the form of recordings (`layout`) and the protocol of the socket.
 */
#ifndef TAILBOUND_TRIGGER_H
#define TAILBOUND_TRIGGER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A trigger. */
struct tailbound_trigger_site {
    const char *name;
    void (*callback)(const struct tailbound_trigger_site *site, const uint64_t *arguments, uint32_t count);
    uint32_t enabled;
    uint32_t number;
};

/* A function that a trigger calls in place of recording. */
typedef void tailbound_trigger_callback(const struct tailbound_trigger_site *site, const uint64_t *arguments,
                                        uint32_t count);

/*
 * Switches the triggers on, or off, that fit the pattern, in which `*` stands for any characters. Returns the number
 * of triggers (copies in the text), or -1 with errno: ENOENT if none fits, EPERM if TAILBOUND_TRIGGER_PATCH=off forbids
 * to change the text, EINVAL if that variable is neither on nor off, otherwise the kernel's refusal to change the text;
 * then all triggers are as they were. When it returns, no thread runs the text from before.
 */
int tailbound_trigger_enable(const char *pattern);
int tailbound_trigger_disable(const char *pattern);
/* Like enable, but the triggers call the function. */
int tailbound_trigger_call(const char *pattern, tailbound_trigger_callback *callback);
/*
 * Begins to record into an open file that the Rust side prepared. Returns 0, or -1 with errno: EBUSY while a
 * recording is under way, EINVAL if the file is no recording.
 */
int tailbound_trigger_record_into(int file);
/* Ends the recording. */
void tailbound_trigger_stop(void);
/* Serves the control socket of this process in a thread. Returns 0, or -1 with errno. */
int tailbound_trigger_listen(void);

static inline void tailbound_trigger_fire(const struct tailbound_trigger_site *site, const uint64_t *arguments,
                                          uint32_t count) {
    tailbound_trigger_callback *callback = __atomic_load_n(&site->callback, __ATOMIC_ACQUIRE);
    if (callback) {
        callback(site, arguments, count);
    }
}

#ifdef __cplusplus
}
#endif

/* The entry in the table of sites, with the trigger (5:) and its name (6:); `jump` and `skip` are expressions. */
#define TAILBOUND_TRIGGER_ENTRY(name, jump, skip)                                                                      \
    ".pushsection tailbound_sites,\"aw?R\",@progbits\n\t.balign 8\n"                                                   \
    "5:\t.quad 6f\n\t.quad 0\n\t.long 0\n\t.long 0\n\t.popsection\n"                                                   \
    ".pushsection .rodata.tailbound,\"a?\",@progbits\n6:\t.asciz \"" name "\"\n\t.popsection\n"                        \
    ".pushsection tailbound_triggers,\"aw?R\",@progbits\n\t.balign 4\n"                                                \
    "\t.long " jump "\n\t.long 5b - .\n\t.long " skip "\n\t.popsection\n"                                              \
    ".ifndef tailbound_trigger_note\n\t.set tailbound_trigger_note, 1\n"                                               \
    "\t.pushsection .note.tailbound,\"aR\",@note\n\t.balign 4\n\t.long 10, 8, 1\n\t.asciz \"Tailbound\"\n"             \
    "\t.balign 4\n\t.hidden __start_tailbound_triggers\n\t.hidden __stop_tailbound_triggers\n"                         \
    "\t.long __start_tailbound_triggers - .\n\t.long __stop_tailbound_triggers - .\n\t.popsection\n\t.endif\n"

#if defined(__clang__)
#define TAILBOUND_TRIGGER_HAS_OUTPUTS (__clang_major__ >= 17)
#else
#define TAILBOUND_TRIGGER_HAS_OUTPUTS (__GNUC__ >= 11)
#endif

/* Goes to `on` with the trigger where it is on, and falls through where it is off. */
#if defined(__x86_64__) && TAILBOUND_TRIGGER_HAS_OUTPUTS && !defined(TAILBOUND_TRIGGER_ATOMIC)
#define TAILBOUND_TRIGGER_BRANCH(name, site, on)                                                                       \
    __asm__ goto("2:\tjmp 3f\n\tlea 5f(%%rip), %0\n\tjmp %l1\n3:\n"                                                    \
                 TAILBOUND_TRIGGER_ENTRY(name, "2b - .", "3b - 2b - 2")                                                \
                 : "=r"(site) : : : on)
#else
#if defined(__x86_64__)
#define TAILBOUND_TRIGGER_ADDRESS "lea 5f(%%rip), %0\n"
#elif defined(__aarch64__)
#define TAILBOUND_TRIGGER_ADDRESS "adrp %0, 5f\n\tadd %0, %0, :lo12:5f\n"
#else
#error "tailbound_trigger.h is for x86-64 and aarch64"
#endif
#define TAILBOUND_TRIGGER_BRANCH(name, site, on)                                                                       \
    __asm__ volatile(TAILBOUND_TRIGGER_ADDRESS TAILBOUND_TRIGGER_ENTRY(name, "0", "0") : "=r"(site));                  \
    if (__builtin_expect(__atomic_load_n(&site->enabled, __ATOMIC_RELAXED) != 0, 0))                                   \
        goto on
#endif

#define TAILBOUND_TRIGGER_JOIN_(a, b) a##b
#define TAILBOUND_TRIGGER_JOIN(a, b) TAILBOUND_TRIGGER_JOIN_(a, b)

/* The last argument is none of the trigger's: without it a trigger without arguments would have an empty list. */
#define TAILBOUND_TRIGGER(...) TAILBOUND_TRIGGER_WITH_(__COUNTER__, __VA_ARGS__, 0)
#define TAILBOUND_TRIGGER_WITH_(counter, ...) TAILBOUND_TRIGGER_WITH(counter, __VA_ARGS__)
#define TAILBOUND_TRIGGER_WITH(counter, name, ...)                                                                     \
    TAILBOUND_TRIGGER_AT(TAILBOUND_TRIGGER_JOIN(tailbound_on_, counter),                                               \
                         TAILBOUND_TRIGGER_JOIN(tailbound_off_, counter), name, __VA_ARGS__)

#ifdef __cplusplus
template <class... Arguments>
inline void tailbound_trigger_fire_all(const tailbound_trigger_site *site, Arguments... arguments) {
    const uint64_t values[] = {static_cast<uint64_t>(arguments)...};
    static_assert(sizeof...(Arguments) <= 9, "a trigger has at most eight arguments");
    tailbound_trigger_fire(site, values, sizeof...(Arguments) - 1);
}
#define TAILBOUND_TRIGGER_AT(on, off, name, ...)                                                                       \
    do {                                                                                                               \
        tailbound_trigger_site *tailbound_site;                                                                        \
        static_assert(sizeof(name) <= 57, "the name of a trigger has at most 56 bytes");                               \
        TAILBOUND_TRIGGER_BRANCH(name, tailbound_site, on);                                                            \
        goto off;                                                                                                      \
    on:                                                                                                                \
        tailbound_trigger_fire_all(tailbound_site, __VA_ARGS__);                                                       \
    off:;                                                                                                              \
    } while (0)
#else
#define TAILBOUND_TRIGGER_AT(on, off, name, ...)                                                                       \
    do {                                                                                                               \
        struct tailbound_trigger_site *tailbound_site;                                                                 \
        _Static_assert(sizeof(name) <= 57, "the name of a trigger has at most 56 bytes");                              \
        TAILBOUND_TRIGGER_BRANCH(name, tailbound_site, on);                                                            \
        goto off;                                                                                                      \
    on: {                                                                                                              \
        const uint64_t tailbound_values[] = {__VA_ARGS__};                                                             \
        _Static_assert(sizeof(tailbound_values) <= 72, "a trigger has at most eight arguments");                       \
        tailbound_trigger_fire(tailbound_site, tailbound_values, sizeof(tailbound_values) / 8 - 1);                    \
    }                                                                                                                  \
    off:;                                                                                                              \
    } while (0)
#endif

#endif

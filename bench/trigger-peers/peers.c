/*
 * Nanoseconds per event of other ways to trace a program, and of the triggers in C: `peers KIND`, where KIND is
 * trigger, usdt, marker, or lttng. Prints the median over rounds of a loop with the event less the same loop without.
 * Who runs it has switched the events on, or not.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tailbound_trigger.h"
#ifdef WITH_USDT
#include <sys/sdt.h>
#endif
#ifdef WITH_LTTNG
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "provider.h"
#endif

static uint64_t events = 1 << 16;
#define ROUNDS 101

static int marker = -1;

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#define LOOP(name, event)                                                                                              \
    static __attribute__((noinline)) void name(void) {                                                                 \
        for (uint64_t number = 0; number < events; number++) {                                                         \
            event;                                                                                                     \
            __asm__ volatile("" : : "r"(number));                                                                      \
        }                                                                                                              \
    }

LOOP(empty, (void)0)
LOOP(trigger, TAILBOUND_TRIGGER("cost.two", number, 1))
#ifdef WITH_USDT
LOOP(usdt, DTRACE_PROBE2(tailbound_bench, two, number, 1))
#endif
#ifdef WITH_LTTNG
LOOP(lttng, lttng_ust_tracepoint(tailbound_bench, two, number, 1))
#endif
LOOP(mark, if (write(marker, "number 123456 two 1", 19) != 19) abort())

static int by_value(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double measure(void (*act)(void)) {
    double differences[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        act();
        double middle = now_ns();
        empty();
        differences[round] = ((middle - start) - (now_ns() - middle)) / (double)events;
    }
    qsort(differences, ROUNDS, sizeof *differences, by_value);
    return differences[ROUNDS / 2];
}

int main(int count, char **words) {
    const char *kind = count > 1 ? words[1] : "";
    void (*act)(void) = NULL;
    if (strcmp(kind, "trigger") == 0) {
        act = trigger;
    } else if (strcmp(kind, "marker") == 0 && count > 2) {
        marker = open(words[2], O_WRONLY);
        events = 1 << 12;
        act = mark;
    }
#ifdef WITH_USDT
    if (strcmp(kind, "usdt") == 0) {
        act = usdt;
        events = count > 2 ? 1 << 12 : events;
    }
#endif
#ifdef WITH_LTTNG
    if (strcmp(kind, "lttng") == 0) {
        act = lttng;
        events = count > 2 ? 1 << 12 : events;
    }
#endif
    if (!act || (act == mark && marker < 0)) {
        fprintf(stderr, "peers: \"%s\" is not there\n", kind);
        return 1;
    }
    printf("%.2f\n", measure(act));
}

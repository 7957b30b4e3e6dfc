/*
 * A program with triggers in itself and in a library. `subject record FILE` switches and records on its own;
 * `subject serve THREADS` listens, and runs triggers in threads until it is killed.
 */
#define _GNU_SOURCE
#include "tailbound_trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void act_in_library(unsigned long number);
void act_in_second_file(unsigned long number);

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, strerror(errno));                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static unsigned calls;

static void count_call(const struct tailbound_trigger_site *site, const uint64_t *arguments, uint32_t count) {
    REQUIRE(strcmp(site->name, "c.eight") == 0 && count == 8 && arguments[7] == 8);
    calls++;
}

static void act(unsigned long number) {
    TAILBOUND_TRIGGER("c.main", number, number + 1);
    TAILBOUND_TRIGGER("c.none");
    TAILBOUND_TRIGGER("c.eight", 1, 2, 3, 4, 5, 6, 7, 8);
    act_in_library(number);
    act_in_second_file(number);
}

static void *act_in_thread(void *unused) {
    act(7);
    return unused;
}

static void record(const char *path) {
    int file = open(path, O_RDWR);
    REQUIRE(file >= 0);
    int none = open("/proc/self/exe", O_RDONLY);
    REQUIRE(tailbound_trigger_record_into(none) == -1);
    act(1);
    REQUIRE(tailbound_trigger_enable("d.*") == -1 && errno == ENOENT);
    REQUIRE(tailbound_trigger_call("c.e*t", count_call) == 1);
    act(2);
    REQUIRE(calls == 1);
    REQUIRE(tailbound_trigger_disable("c.eight") == 1);
    REQUIRE(tailbound_trigger_enable("c.*") >= 8);
    REQUIRE(tailbound_trigger_disable("c.eight") == 1);
    act(3);
    REQUIRE(tailbound_trigger_record_into(file) == 0);
    REQUIRE(tailbound_trigger_record_into(file) == -1 && errno == EBUSY);
    act(4);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, act_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        act(5);
        exit(0);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    REQUIRE(tailbound_trigger_disable("*") >= 9);
    act(6);
    REQUIRE(calls == 1);
    tailbound_trigger_stop();
}

static void *act_forever(void *unused) {
    for (unsigned long number = 0;; number++) {
        TAILBOUND_TRIGGER("c.main", number, number + 1);
    }
    return unused;
}

int main(int count, char **words) {
    REQUIRE(count == 3);
    if (strcmp(words[1], "record") == 0) {
        record(words[2]);
        return 0;
    }
    REQUIRE(tailbound_trigger_listen() == 0);
    for (int thread = atoi(words[2]); thread > 0; thread--) {
        pthread_t created;
        REQUIRE(pthread_create(&created, NULL, act_forever, NULL) == 0);
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        pause();
    }
}

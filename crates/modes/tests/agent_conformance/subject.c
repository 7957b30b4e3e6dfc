/* The C agent under test: says on its output what it is called for. PATH DOMAIN */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tailbound_link.h"

struct subject {
    const char *name;
    bool does_not_stop;
    int starts_fail;
};

static const char *stop(void *context) {
    struct subject *subject = context;
    printf("stop %s\n", subject->name);
    return subject->does_not_stop ? "does not stop" : NULL;
}

static const char *start(void *context) {
    struct subject *subject = context;
    printf("start %s\n", subject->name);
    if (subject->starts_fail > 0) {
        subject->starts_fail--;
        return "does not start";
    }
    return NULL;
}

static void on_event(void *context, enum tailbound_event event, const char *told) {
    static const char *const names[] = {"connected", "done",          "failed", "withdrawn",
                                        "refused",   "not-connected", "lost"};
    (void)context;
    printf("%s %s\n", names[event], told);
}

static struct tailbound_link to_host;

static void *obey(void *nothing) {
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        tailbound_link_request(&to_host, line);
    }
    tailbound_link_end(&to_host);
    return nothing;
}

static struct subject subjects[] = {
    {.name = "move"},
    {.name = "hold"},
    {.name = "scan"},
    {.name = "broken", .starts_fail = INT_MAX},
    {.name = "stuck", .does_not_stop = true},
    {.name = "weary", .starts_fail = 1},
};
#define COUNT (sizeof subjects / sizeof *subjects)

int main(int count, char **arguments) {
    static struct tailbound_agent agent;
    static struct tailbound_task tasks[COUNT];
    static uint8_t in[TAILBOUND_IN_BYTES(COUNT)], out[TAILBOUND_OUT_BYTES(COUNT)];
    char boot[64];
    pthread_t thread;
    if (count != 3) {
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t place = 0; place < COUNT; place++) {
        bool started = strcmp(subjects[place].name, "scan") != 0 &&
                       strcmp(subjects[place].name, "broken") != 0;
        tasks[place] = (struct tailbound_task){.name = subjects[place].name,
                                               .started = started,
                                               .stop = stop,
                                               .start = start,
                                               .context = &subjects[place]};
    }
    struct tailbound_agent_config config = {
        .domain = arguments[2],
        .tasks = tasks,
        .task_count = COUNT,
        .now_ns = tailbound_monotonic_ns,
        .clock = "monotonic",
        .boot = tailbound_boot_id(boot),
        .in = in,
        .out = out,
        .in_bytes = sizeof in,
        .out_bytes = sizeof out,
        .on_event = on_event,
    };
    struct tailbound_link_config way = {
        .path = arguments[1], .pause_least_ms = 1, .pause_most_ms = 5};
    if (tailbound_agent_init(&agent, &config) != TAILBOUND_OK ||
        tailbound_link_init(&to_host, &agent, &way) != 0 ||
        pthread_create(&thread, NULL, obey, NULL) != 0) {
        return 2;
    }
    int outcome = tailbound_link_run(&to_host);
    pthread_join(thread, NULL);
    tailbound_link_close(&to_host);
    return outcome == 0 ? 0 : 1;
}

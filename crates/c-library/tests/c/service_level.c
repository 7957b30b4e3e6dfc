/* A service level in C: what the header says, and as an application whose report is asked for until its standard input ends. */
#include <inttypes.h>

#include "expect.h"
#include "tailbound_service_level.h"

static void check_calls(void) {
    tailbound_service_level *level = NULL;
    char report[300];
    double value = -1;
    uint64_t request = 0;

    EXPECT(tailbound_service_level_create(0, &level) == TAILBOUND_INVALID);
    EXPECT(tailbound_service_level_create(UINT64_MAX, &level) == TAILBOUND_INVALID);
    EXPECT(tailbound_service_level_create(1000000000, NULL) == TAILBOUND_INVALID);
    EXPECT(tailbound_service_level_create(1000000000, &level) == TAILBOUND_OK);
    EXPECT(tailbound_service_level_value(level, &value) == TAILBOUND_OK && value == 1);
    EXPECT(tailbound_service_level_serves_optional(level) == 1);
    EXPECT(tailbound_service_level_begin(level, 0, NULL) == TAILBOUND_INVALID);
    EXPECT(tailbound_service_level_begin(level, 500000000, &request) == TAILBOUND_OK && request > 0);
    EXPECT(tailbound_service_level_end(level, request) == TAILBOUND_OK);
    EXPECT(tailbound_service_level_end(level, request) == TAILBOUND_OK);
    EXPECT(tailbound_service_level_observe(level, 3000000000u) == TAILBOUND_OK);
    int length = tailbound_service_level_report(level, report, sizeof report - 1);
    EXPECT(length > 0);
    report[length] = 0;
    EXPECT(strstr(report, "\"matching_value\": -1.0") && strstr(report, "\"requests\": 2"));
    EXPECT(tailbound_service_level_report(level, report, 10) == TAILBOUND_TOO_LONG);
    EXPECT(tailbound_service_level_listen(level, "shop.sock") == TAILBOUND_INVALID);
    EXPECT(tailbound_service_level_listen(level, "unix:/nonexistent/shop.sock") == TAILBOUND_REFUSED);
    EXPECT(tailbound_service_level_listen(level, "http://127.0.0.1:0") > 0);
    EXPECT(tailbound_service_level_listen(level, "http://127.0.0.1:0") == TAILBOUND_INVALID);
    EXPECT(tailbound_service_level_value(NULL, &value) == TAILBOUND_INVALID);
    EXPECT(tailbound_service_level_close(level) == TAILBOUND_OK);
    EXPECT(tailbound_service_level_close(NULL) == TAILBOUND_OK);
}

int main(int count, char **arguments) {
    tailbound_service_level *level = NULL;

    if (count < 2) {
        check_calls();
        return 0;
    }
    EXPECT(tailbound_service_level_create(1000000000, &level) == TAILBOUND_OK);
    EXPECT(tailbound_service_level_observe(level, 1500000000) == TAILBOUND_OK);
    int port = tailbound_service_level_listen(level, arguments[1]);
    EXPECT(port >= 0);
    printf("%d\n", port);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    EXPECT(tailbound_service_level_close(level) == TAILBOUND_OK);
    return 0;
}

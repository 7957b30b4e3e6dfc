/* Preloaded into servers: every fsync and fdatasync of a file below SYNC_DELAY_BELOW takes
 * SYNC_DELAY_MS longer, as on a slower disk. Everything else passes through. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void delay(int descriptor)
{
    const char *below = getenv("SYNC_DELAY_BELOW");
    const char *delay_ms = getenv("SYNC_DELAY_MS");
    char link[64], path[PATH_MAX];
    if (below == NULL || delay_ms == NULL)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return;
    path[length] = '\0';
    size_t prefix = strlen(below);
    if (strncmp(path, below, prefix) != 0 || (path[prefix] != '/' && path[prefix] != '\0'))
        return;
    long ms = strtol(delay_ms, NULL, 10);
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

int fsync(int descriptor)
{
    static int (*next)(int);
    if (next == NULL)
        next = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int result = next(descriptor);
    int error = errno;
    delay(descriptor);
    errno = error;
    return result;
}

int fdatasync(int descriptor)
{
    static int (*next)(int);
    if (next == NULL)
        next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    int result = next(descriptor);
    int error = errno;
    delay(descriptor);
    errno = error;
    return result;
}

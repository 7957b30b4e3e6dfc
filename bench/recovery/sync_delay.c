/* Preloaded into servers: every fsync and fdatasync of a file below SYNC_DELAY_BELOW takes
 * SYNC_DELAY_MS longer, as on a slower disk. Everything else passes through.
 *
 * With SYNC_DELAY_CONTROL, a file that holds the milliseconds and is read at every call, the delay can
 * change while the process runs; it then comes before the sync, so that what is waited for is not on disk
 * yet, and is for files only whose name begins with SYNC_DELAY_NAME. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int concerns(int descriptor)
{
    const char *below = getenv("SYNC_DELAY_BELOW");
    const char *name = getenv("SYNC_DELAY_NAME");
    char link[64], path[PATH_MAX];
    if (below == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    size_t prefix = strlen(below);
    if (strncmp(path, below, prefix) != 0 || (path[prefix] != '/' && path[prefix] != '\0'))
        return 0;
    return name == NULL || strncmp(strrchr(path, '/') + 1, name, strlen(name)) == 0;
}

static void wait_ms(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static void delay_before(int descriptor)
{
    const char *control = getenv("SYNC_DELAY_CONTROL");
    char text[32];
    if (control == NULL || !concerns(descriptor))
        return;
    int file = open(control, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length > 0) {
        text[length] = '\0';
        wait_ms(strtol(text, NULL, 10));
    }
}

static void delay_after(int descriptor)
{
    const char *delay_ms = getenv("SYNC_DELAY_MS");
    if (delay_ms != NULL && concerns(descriptor))
        wait_ms(strtol(delay_ms, NULL, 10));
}

static int sync_late(int descriptor, const char *name)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    delay_before(descriptor);
    int result = next(descriptor);
    int error = errno;
    delay_after(descriptor);
    errno = error;
    return result;
}

int fsync(int descriptor)
{
    return sync_late(descriptor, "fsync");
}

int fdatasync(int descriptor)
{
    return sync_late(descriptor, "fdatasync");
}

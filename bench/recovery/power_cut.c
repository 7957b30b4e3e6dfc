/* Cuts the power of a mounted ext4: no block is written from the moment of the call on, not even those of
 * the journal that are ready. What the page cache held is lost when the file system is unmounted.
 *
 * Usage: power_cut MOUNT-POINT */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define EXT4_IOC_SHUTDOWN _IOR('X', 125, uint32_t)
#define WITHOUT_LOG_FLUSH 2

int main(int count, char **arguments)
{
    uint32_t how = WITHOUT_LOG_FLUSH;
    if (count != 2) {
        fprintf(stderr, "usage: power_cut MOUNT-POINT\n");
        return 1;
    }
    int folder = open(arguments[1], O_RDONLY | O_DIRECTORY);
    if (folder < 0 || ioctl(folder, EXT4_IOC_SHUTDOWN, &how) != 0) {
        fprintf(stderr, "power_cut: %s: %s\n", arguments[1], strerror(errno));
        return 1;
    }
    close(folder);
    return 0;
}

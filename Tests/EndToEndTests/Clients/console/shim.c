// Another clock and another disk for the program, in a story: the folder of ONYM_SHIM has a file "offset" with seconds that the clock
// is ahead, and a file "full" while the disk has no room.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int named(char *path, size_t size, const char *name) {
    const char *folder = getenv("ONYM_SHIM");
    return folder && snprintf(path, size, "%s/%s", folder, name) < (int)size;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    char path[512], text[32];
    if (result != 0 || clock != CLOCK_REALTIME || !named(path, sizeof path, "offset")) return result;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count > 0) {
        text[count] = 0;
        time->tv_sec += atol(text);
    }
    return 0;
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    char path[512];
    if (!real) real = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    if (named(path, sizeof path, "full") && access(path, F_OK) == 0) {
        errno = ENOSPC;
        return -1;
    }
    return real(file, bytes, count, offset);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) { return pwrite64(file, bytes, count, offset); }

#ifndef ONYM_CLINUX_SHIM_H
#define ONYM_CLINUX_SHIM_H

// What `import Glibc` leaves out.

#include <malloc.h>
#include <stddef.h>
#include <sys/file.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/// Names the calling thread; the kernel keeps 15 bytes.
static inline void onym_name_thread(const char *name) {
    prctl(PR_SET_NAME, (unsigned long)name, 0, 0, 0);
}

/// Sends a datagram to a socket of the file system, or to an abstract one, whose name begins with "@". Answers 0 if the
/// whole text was sent.
static inline int onym_send_datagram(const char *path, const char *text) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof(address.sun_path)) return -1;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') address.sun_path[0] = 0;
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -1;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    ssize_t sent = sendto(descriptor, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    close(descriptor);
    return sent == (ssize_t)strlen(text) ? 0 : -1;
}

#endif

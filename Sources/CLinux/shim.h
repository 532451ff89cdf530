#ifndef ONYM_CLINUX_SHIM_H
#define ONYM_CLINUX_SHIM_H

// What `import Glibc` leaves out.

#include <malloc.h>
#include <sys/file.h>
#include <sys/prctl.h>

/// Names the calling thread; the kernel keeps 15 bytes.
static inline void onym_name_thread(const char *name) {
    prctl(PR_SET_NAME, (unsigned long)name, 0, 0, 0);
}

#endif

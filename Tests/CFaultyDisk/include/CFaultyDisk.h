#ifndef ONYM_CFAULTYDISK_H
#define ONYM_CFAULTYDISK_H

#include <stddef.h>
#include <stdint.h>

// A disk of SQLite (https://www.sqlite.org/vfs.html) whose every call is a question to Swift. It is in C, because SQLite allocates
// the structures of files by the length that the disk says.

enum onym_disk_kind {
    ONYM_DISK_OPEN, ONYM_DISK_CLOSE, ONYM_DISK_READ, ONYM_DISK_WRITE, ONYM_DISK_TRUNCATE, ONYM_DISK_SYNC, ONYM_DISK_SIZE,
    ONYM_DISK_LOCK, ONYM_DISK_UNLOCK, ONYM_DISK_RESERVED, ONYM_DISK_DELETE, ONYM_DISK_ACCESS, ONYM_DISK_RANDOM,
    ONYM_DISK_SLEEP, ONYM_DISK_TIME, ONYM_DISK_SHM_MAP, ONYM_DISK_SHM_LOCK, ONYM_DISK_SHM_UNMAP,
};

typedef struct {
    int kind;
    int flags;
    /// The number that Swift gave to the open file.
    int64_t file;
    int64_t offset;
    void *bytes;
    int count;
    /// The path of a call without an open file; NULL for a file without a name.
    const char *path;
    /// What Swift answers besides the code.
    int64_t result;
    void *memory;
} onym_disk_call;

/// Answers a call with a result code of SQLite.
typedef int (*onym_disk_answer)(void *disk, onym_disk_call *call);

/// Makes a disk known to SQLite. The name and the disk must live until it is unregistered.
void *onym_disk_register(const char *name, void *disk, onym_disk_answer answer);
void onym_disk_unregister(void *registered);

/// Makes OpenSSL's random bytes on this thread follow from a seed. A simulation needs this; nothing else may use it.
void onym_chance_begin(uint64_t seed);

/// The bytes of memory that the process has taken and not given back.
size_t onym_memory_in_use(void);

#endif

#include "CFaultyDisk.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    sqlite3_vfs vfs;
    void *disk;
    onym_disk_answer answer;
} Registered;

typedef struct {
    sqlite3_file base;
    Registered *registered;
    int64_t number;
} File;

static int ask(Registered *registered, onym_disk_call *call) { return registered->answer(registered->disk, call); }

static int ask_file(sqlite3_file *file, onym_disk_call *call) {
    File *own = (File *)file;
    call->file = own->number;
    return ask(own->registered, call);
}

static int disk_close(sqlite3_file *file) {
    onym_disk_call call = {.kind = ONYM_DISK_CLOSE};
    return ask_file(file, &call);
}

static int disk_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
    onym_disk_call call = {.kind = ONYM_DISK_READ, .bytes = bytes, .count = count, .offset = offset};
    int code = ask_file(file, &call);
    if (code != SQLITE_OK) return code;
    if (call.result == count) return SQLITE_OK;
    // SQLite relies on zeros behind the end of the file.
    memset((char *)bytes + call.result, 0, (size_t)(count - call.result));
    return SQLITE_IOERR_SHORT_READ;
}

static int disk_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    onym_disk_call call = {.kind = ONYM_DISK_WRITE, .bytes = (void *)bytes, .count = count, .offset = offset};
    return ask_file(file, &call);
}

static int disk_truncate(sqlite3_file *file, sqlite3_int64 size) {
    onym_disk_call call = {.kind = ONYM_DISK_TRUNCATE, .offset = size};
    return ask_file(file, &call);
}

static int disk_sync(sqlite3_file *file, int flags) {
    onym_disk_call call = {.kind = ONYM_DISK_SYNC, .flags = flags};
    return ask_file(file, &call);
}

static int disk_size(sqlite3_file *file, sqlite3_int64 *size) {
    onym_disk_call call = {.kind = ONYM_DISK_SIZE};
    int code = ask_file(file, &call);
    *size = call.result;
    return code;
}

static int disk_lock(sqlite3_file *file, int level) {
    onym_disk_call call = {.kind = ONYM_DISK_LOCK, .flags = level};
    return ask_file(file, &call);
}

static int disk_unlock(sqlite3_file *file, int level) {
    onym_disk_call call = {.kind = ONYM_DISK_UNLOCK, .flags = level};
    return ask_file(file, &call);
}

static int disk_reserved(sqlite3_file *file, int *is_reserved) {
    onym_disk_call call = {.kind = ONYM_DISK_RESERVED};
    int code = ask_file(file, &call);
    *is_reserved = (int)call.result;
    return code;
}

static int disk_control(sqlite3_file *file, int operation, void *argument) {
    (void)file, (void)operation, (void)argument;
    return SQLITE_NOTFOUND;
}

static int disk_sector(sqlite3_file *file) {
    (void)file;
    return 4096;
}

// The disk promises nothing: not even that bytes beside a write survive a power cut.
static int disk_characteristics(sqlite3_file *file) {
    (void)file;
    return 0;
}

static int disk_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **memory) {
    onym_disk_call call = {.kind = ONYM_DISK_SHM_MAP, .offset = region, .count = size, .flags = extend};
    int code = ask_file(file, &call);
    *memory = call.memory;
    return code;
}

static int disk_shm_lock(sqlite3_file *file, int offset, int count, int flags) {
    onym_disk_call call = {.kind = ONYM_DISK_SHM_LOCK, .offset = offset, .count = count, .flags = flags};
    return ask_file(file, &call);
}

static void disk_shm_barrier(sqlite3_file *file) {
    (void)file;
    __sync_synchronize();
}

static int disk_shm_unmap(sqlite3_file *file, int deletes) {
    onym_disk_call call = {.kind = ONYM_DISK_SHM_UNMAP, .flags = deletes};
    return ask_file(file, &call);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = disk_close,
    .xRead = disk_read,
    .xWrite = disk_write,
    .xTruncate = disk_truncate,
    .xSync = disk_sync,
    .xFileSize = disk_size,
    .xLock = disk_lock,
    .xUnlock = disk_unlock,
    .xCheckReservedLock = disk_reserved,
    .xFileControl = disk_control,
    .xSectorSize = disk_sector,
    .xDeviceCharacteristics = disk_characteristics,
    .xShmMap = disk_shm_map,
    .xShmLock = disk_shm_lock,
    .xShmBarrier = disk_shm_barrier,
    .xShmUnmap = disk_shm_unmap,
};

static int disk_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out) {
    Registered *registered = vfs->pAppData;
    File *own = (File *)file;
    onym_disk_call call = {.kind = ONYM_DISK_OPEN, .path = path, .flags = flags};
    // Without methods SQLite does not close the file.
    own->base.pMethods = 0;
    int code = ask(registered, &call);
    if (code != SQLITE_OK) return code;
    own->registered = registered;
    own->number = call.result;
    own->base.pMethods = &methods;
    if (out) *out = flags;
    return SQLITE_OK;
}

static int disk_delete(sqlite3_vfs *vfs, const char *path, int sync_folder) {
    onym_disk_call call = {.kind = ONYM_DISK_DELETE, .path = path, .flags = sync_folder};
    return ask(vfs->pAppData, &call);
}

static int disk_access(sqlite3_vfs *vfs, const char *path, int flags, int *result) {
    onym_disk_call call = {.kind = ONYM_DISK_ACCESS, .path = path, .flags = flags};
    int code = ask(vfs->pAppData, &call);
    *result = (int)call.result;
    return code;
}

static int disk_full_path(sqlite3_vfs *vfs, const char *path, int count, char *full) {
    (void)vfs;
    if ((int)strlen(path) >= count) return SQLITE_CANTOPEN;
    strcpy(full, path);
    return SQLITE_OK;
}

static int disk_random(sqlite3_vfs *vfs, int count, char *bytes) {
    onym_disk_call call = {.kind = ONYM_DISK_RANDOM, .bytes = bytes, .count = count};
    ask(vfs->pAppData, &call);
    return count;
}

static int disk_sleep(sqlite3_vfs *vfs, int microseconds) {
    onym_disk_call call = {.kind = ONYM_DISK_SLEEP, .offset = microseconds};
    ask(vfs->pAppData, &call);
    return microseconds;
}

static int disk_time_64(sqlite3_vfs *vfs, sqlite3_int64 *time) {
    onym_disk_call call = {.kind = ONYM_DISK_TIME};
    int code = ask(vfs->pAppData, &call);
    *time = call.result;
    return code;
}

static int disk_time(sqlite3_vfs *vfs, double *time) {
    sqlite3_int64 milliseconds = 0;
    int code = disk_time_64(vfs, &milliseconds);
    *time = (double)milliseconds / 86400000.0;
    return code;
}

static int disk_last_error(sqlite3_vfs *vfs, int count, char *text) {
    (void)vfs, (void)count, (void)text;
    return 0;
}

void *onym_disk_register(const char *name, void *disk, onym_disk_answer answer) {
    Registered *registered = calloc(1, sizeof *registered);
    if (!registered) abort();
    registered->disk = disk;
    registered->answer = answer;
    registered->vfs = (sqlite3_vfs){
        .iVersion = 2,
        .szOsFile = sizeof(File),
        .mxPathname = 512,
        .zName = strdup(name),
        .pAppData = registered,
        .xOpen = disk_open,
        .xDelete = disk_delete,
        .xAccess = disk_access,
        .xFullPathname = disk_full_path,
        .xRandomness = disk_random,
        .xSleep = disk_sleep,
        .xCurrentTime = disk_time,
        .xGetLastError = disk_last_error,
        .xCurrentTimeInt64 = disk_time_64,
    };
    if (sqlite3_vfs_register(&registered->vfs, 0) != SQLITE_OK) abort();
    return registered;
}

void onym_disk_unregister(void *pointer) {
    Registered *registered = pointer;
    sqlite3_vfs_unregister(&registered->vfs);
    free((void *)registered->vfs.zName);
    free(registered);
}
